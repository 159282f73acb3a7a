#pragma once
// What the tests of the kernels share.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/core/dtype.h"
#include "lathe/core/float16.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu::testing {

constexpr double kEps = 0x1p-24;    ///< unit roundoff of f32
constexpr double kTiny = 0x1p-110;  ///< where exp has underflowed, everything is 0
inline double eps_of(DType t) { return t == DType::bf16 ? 0x1p-8 : t == DType::f16 ? 0x1p-11 : kEps; }
/// One rounding of a number of that size; below 2⁻¹⁴ those of f16 are 2⁻²⁴ apart.
inline double rounding_of(DType t, double value) {
  return std::max(eps_of(t) * std::abs(value), t == DType::f16 ? 0x1p-25 : 0);
}
/// Where numbers of the storage end: from here on they round to infinity.
inline double end_of(DType t) { return t == DType::f16 ? 65520 : INFINITY; }

/// n elements that begin as NaN, between guards.
class Tensor {
 public:
  Tensor(DType t, int64_t n)
      : type_(t), n_(n), bytes_(2 * kGuard + static_cast<size_t>(n) * size_of(t), std::byte{0xa5}) {
    std::memset(bytes_.data() + kGuard, 0xff, static_cast<size_t>(n) * size_of(t));
  }
  template <typename F>
  Tensor(DType t, int64_t n, F draw) : Tensor(t, n) {
    for (int64_t i = 0; i < n; ++i) set(i, static_cast<float>(draw()));
  }
  DType type() const { return type_; }
  int64_t size() const { return n_; }
  std::byte* data() { return bytes_.data() + kGuard; }
  const std::byte* data() const { return bytes_.data() + kGuard; }
  float* f32() { return reinterpret_cast<float*>(data()); }
  const float* f32() const { return reinterpret_cast<const float*>(data()); }
  double operator[](int64_t i) const {
    if (type_ == DType::bf16) return to_float(reinterpret_cast<const bf16*>(data())[i]);
    if (type_ == DType::f16) return to_float(reinterpret_cast<const f16*>(data())[i]);
    return f32()[i];
  }
  void set(int64_t i, float x) {
    if (type_ == DType::bf16) {
      reinterpret_cast<bf16*>(data())[i] = to_bf16(x);
    } else if (type_ == DType::f16) {
      reinterpret_cast<f16*>(data())[i] = to_f16(x);
    } else {
      f32()[i] = x;
    }
  }
  bool intact() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (bytes_[i] != std::byte{0xa5} || bytes_[bytes_.size() - 1 - i] != std::byte{0xa5}) return false;
    return true;
  }
  bool operator==(const Tensor& other) const { return bytes_ == other.bytes_; }

 private:
  static constexpr size_t kGuard = 64;
  DType type_;
  int64_t n_;
  std::vector<std::byte> bytes_;
};

/// Reproducible numbers.
class Draw {
 public:
  explicit Draw(uint32_t seed = 1) : bits_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits_()) / 4294967296.0);
  }
  std::function<double()> in(double scale) {
    return [this, scale] { return uniform(-scale, scale); };
  }
  int32_t below(int32_t n) { return static_cast<int32_t>(bits_() % static_cast<uint32_t>(n)); }
  uint32_t word() { return static_cast<uint32_t>(bits_()); }

 private:
  std::mt19937 bits_;
};

/// A value, and the rounding that it is allowed in addition to that of its storage.
struct Expected {
  double value, slack;
};

/// |got − value| ≤ slack + `ulps` roundings of the storage, NaN and infinity alike.
inline void expect_near(const Tensor& got, const std::vector<Expected>& want, double ulps = 1.01) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(want.size()));
  EXPECT_TRUE(got.intact());
  for (int64_t i = 0; i < got.size(); ++i) {
    const Expected& w = want[static_cast<size_t>(i)];
    if (std::isnan(w.value)) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i << ": " << got[i];
      continue;
    }
    if (std::isinf(w.value)) {
      ASSERT_EQ(got[i], w.value) << "at " << i;
      continue;
    }
    const double bound = w.slack + kTiny + ulps * rounding_of(got.type(), w.value);
    if (std::isinf(got[i])) {
      ASSERT_GE(std::copysign(w.value, w.value * got[i]) + bound, end_of(got.type())) << "at " << i;
      continue;
    }
    ASSERT_LE(std::abs(got[i] - w.value), bound) << "at " << i << ": " << got[i] << " instead of " << w.value;
  }
}

/// body(isa, storage) for every level of this machine that has kernels of its own, kernels(isa, storage);
/// otherwise the code of a lower level would run again.
template <typename K, typename F>
void for_levels(K kernels, F body) {
  for (DType t : {DType::f32, DType::bf16, DType::f16}) {
    std::set<const void*> seen;
    for (Isa isa : available_isas()) {
      if (!seen.insert(&kernels(isa, t)).second) continue;
      SCOPED_TRACE(std::string(name_of(isa)) + " " + std::string(name_of(t)));
      body(isa, t);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// The same with the kernels that `Rows` uses on a level.
template <typename F>
void for_levels(F body) {
  for_levels([](Isa isa, DType) -> const RowKernels& { return row_kernels(isa); }, body);
}

/// Runs body(pool) → std::vector<Tensor> with 1, 2 and 3 threads; all bits must be equal.  Returns the
/// tensors.
template <typename F>
std::vector<Tensor> same_for_all_threads(F body) {
  static ThreadPool one(1), two(2), three(3);
  std::vector<Tensor> first = body(one);
  for (ThreadPool* pool : {&two, &three}) {
    const std::vector<Tensor> again = body(*pool);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(first[i] == again[i]) << "output " << i << " with " << pool->size() << " threads";
  }
  return first;
}

/// A workspace full of NaN, 64-byte aligned, with a guard after it.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes), memory_(bytes + 256, std::byte{0xff}) {
    void* p = memory_.data();
    size_t space = memory_.size();
    data_ = static_cast<std::byte*>(std::align(64, bytes + 64, p, space));
    std::memset(data_ + bytes_, 0xa5, 64);
  }
  ~Workspace() {
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(data_[bytes_ + i], std::byte{0xa5}) << "after the workspace";
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  void* data() { return data_; }

 private:
  size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

}  // namespace lathe::cpu::testing
