#pragma once
// Products that the tests of gemm share.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/core/float16.h"

namespace lathe::cpu::testing {

constexpr double kU32 = 0x1p-24;  // unit roundoff of f32
inline double unit_of(DType type) {
  return type == DType::bf16 ? 0x1p-8 : type == DType::f16 ? 0x1p-11 : kU32;
}

inline float rounded(float value, DType type) {
  if (type == DType::bf16) return to_float(to_bf16(value));
  return type == DType::f16 ? to_float(to_f16(value)) : value;
}

// `bytes` of NaN at an address aligned to 64, between two guards.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), lines_((bytes + 63) / 64 + 2 * kGuard) {
    std::memset(lines_.data(), 0xa5, lines_.size() * 64);
    std::memset(data(), 0xff, bytes);
  }
  std::byte* data() { return lines_[kGuard].bytes; }
  const std::byte* data() const { return lines_[kGuard].bytes; }
  bool intact() const {
    const std::byte* all = lines_[0].bytes;
    for (size_t i = 0; i < lines_.size() * 64; ++i)
      if ((i < kGuard * 64 || i >= kGuard * 64 + bytes_) && all[i] != std::byte{0xa5}) return false;
    return true;
  }
  bool same_bits(const Guarded& other) const {
    return bytes_ == other.bytes_ && std::memcmp(data(), other.data(), bytes_) == 0;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  static constexpr size_t kGuard = 2;  // lines before and after
  size_t bytes_;
  std::vector<Line> lines_;
};

// Rows of f32, bf16 or f16, `pad` elements of NaN between them.
class Matrix {
 public:
  Matrix(DType type, int64_t rows, int64_t cols, int64_t pad)
      : type_(type),
        rows_(rows),
        cols_(cols),
        ld_(cols + pad),
        memory_(static_cast<size_t>(rows * (cols + pad)) * size_of(type)) {}

  void randomize(uint32_t seed) {
    std::mt19937 bits(seed);
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < cols_; ++j) set(i, j, static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f);
  }
  void set(int64_t i, int64_t j, float value) {
    std::byte* at = memory_.data() + static_cast<size_t>(i * ld_ + j) * size_of(type_);
    const uint16_t narrow = type_ == DType::bf16 ? to_bf16(value).bits : to_f16(value).bits;
    std::memcpy(at, type_ == DType::f32 ? static_cast<const void*>(&value) : &narrow, size_of(type_));
  }
  float get(int64_t i, int64_t j) const {
    const std::byte* at = memory_.data() + static_cast<size_t>(i * ld_ + j) * size_of(type_);
    float value;
    uint16_t narrow;
    if (type_ == DType::f32) return std::memcpy(&value, at, 4), value;
    std::memcpy(&narrow, at, 2);
    return type_ == DType::bf16 ? to_float(bf16{narrow}) : to_float(f16{narrow});
  }
  void* data() { return memory_.data(); }
  int64_t ld() const { return ld_; }
  bool same_bits(const Matrix& other) const { return memory_.same_bits(other.memory_); }
  bool surroundings_intact() const {
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = cols_; j < ld_; ++j)
        if (!std::isnan(get(i, j))) return false;
    return memory_.intact();
  }

 private:
  DType type_;
  int64_t rows_, cols_, ld_;
  Guarded memory_;
};

// One product with its inputs and what it must give: value and bound of every element.
struct Case {
  // What is added lies in c itself, or elsewhere.
  Case(const Gemm& shape, bool with_bias, uint32_t seed, bool with_addend = false)
      : g(shape),
        a(g.a_type, g.a_transposed ? g.k : g.m, g.a_transposed ? g.m : g.k, seed % 4),
        b(g.b_type, g.b_transposed ? g.n : g.k, g.b_transposed ? g.k : g.n, seed / 4 % 3),
        c(g.c_type, g.m, g.n, seed / 12 % 3),
        addend(c) {
    a.randomize(seed);
    b.randomize(seed + 1);
    if (with_addend) addend.randomize(seed + 2);
    if (with_addend && seed % 2 == 0) c = addend;
    std::mt19937 bits(seed + 3);
    for (int64_t j = 0; with_bias && j < g.n; ++j) bias.push_back(static_cast<float>(bits()) * 0x1p-30f - 2);
    g.a = a.data();
    g.lda = a.ld();
    g.b = b.data();
    g.ldb = b.ld();
    g.ldc = c.ld();
    if (with_bias) g.bias = bias.data();
    if (with_addend) g.addend = addend.data();
    derive();
  }

  // Each step of the sum rounds with a relative error of u at most; as k roundings of random sign they add up
  // to √k. Σ|terms| is used instead of the partial sums, which are far smaller.
  void derive() {
    const DType narrow = g.a_type == DType::f32 ? g.b_type : g.a_type;
    const auto input = [&](float x) { return static_cast<double>(rounded(x, narrow)); };
    const size_t n = static_cast<size_t>(g.n);
    std::vector<double> right(static_cast<size_t>(g.k) * n);
    for (int64_t k = 0; k < g.k; ++k)
      for (int64_t j = 0; j < g.n; ++j)
        right[static_cast<size_t>(k * g.n + j)] = input(g.b_transposed ? b.get(j, k) : b.get(k, j));
    std::vector<double> sum(n), size(n);
    for (int64_t i = 0; i < g.m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double first = g.bias == nullptr ? 0 : bias[j];
        const double second = g.addend == nullptr ? 0 : addend.get(i, static_cast<int64_t>(j));
        sum[j] = first + second;
        size[j] = std::abs(first) + std::abs(second);
      }
      for (int64_t k = 0; k < g.k; ++k) {
        const double left = input(g.a_transposed ? a.get(k, i) : a.get(i, k));
        const double* row = right.data() + static_cast<size_t>(k) * n;
        for (size_t j = 0; j < n; ++j) {
          sum[j] += left * row[j];
          size[j] += std::abs(left * row[j]);
        }
      }
      for (size_t j = 0; j < n; ++j) {
        double bound = kU32 * std::sqrt(static_cast<double>(g.k + 3)) * size[j];
        if (g.c_type != DType::f32)  // subnormals of f16 are 2^-24 apart
          bound +=
              std::max(unit_of(g.c_type) * (std::abs(sum[j]) + bound), g.c_type == DType::f16 ? 0x1p-25 : 0);
        value.push_back(sum[j]);
        limit.push_back(bound);
      }
    }
  }

  std::string name() const {
    const auto matrix = [](DType type, bool t) { return std::string(lathe::name_of(type)) + (t ? "ᵀ" : ""); };
    return std::to_string(g.m) + "x" + std::to_string(g.n) + "x" + std::to_string(g.k) + " " +
           matrix(g.a_type, g.a_transposed) + "·" + matrix(g.b_type, g.b_transposed) + "→" +
           matrix(g.c_type, false) + (g.bias ? " bias" : "") + (g.addend ? " addend" : "");
  }

  void expect_right(const Matrix& result) const {
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        const size_t at = static_cast<size_t>(i * g.n + j);
        const double difference = std::abs(result.get(i, j) - value[at]);
        ASSERT_LE(difference, limit[at]) << name() << " at " << i << ", " << j << ": " << value[at];
      }
    EXPECT_TRUE(result.surroundings_intact()) << name();
  }

  Gemm g;
  Matrix a, b, c, addend;
  std::vector<float> bias;
  std::vector<double> value, limit;
};

inline ThreadPool& pool_of(int threads) {
  static ThreadPool one(1), two(2), three(3), sixteen(16);
  EXPECT_TRUE(threads <= 3 || threads == 16) << "no pool of " << threads;
  return threads == 1 ? one : threads == 2 ? two : threads == 3 ? three : sixteen;
}

inline Matrix run(const Case& test, Isa isa, int threads) {
  Matrix c = test.c;
  Gemm g = test.g;
  g.c = c.data();
  if (g.addend != nullptr && c.same_bits(test.addend)) g.addend = c.data();
  Guarded workspace(gemm_workspace_bytes(isa, g, threads));
  gemm(pool_of(threads), isa, g, workspace.data());
  EXPECT_TRUE(workspace.intact()) << test.name();
  return c;
}

// Runs two products as a pair.
inline std::pair<Matrix, Matrix> run_pair(const Case& first, const Case& second, Isa isa, int threads) {
  Matrix c = first.c, d = second.c;
  Gemm g = first.g, next = second.g;
  g.c = c.data(), next.c = d.data();
  if (next.addend != nullptr && d.same_bits(second.addend)) next.addend = d.data();
  Guarded workspace(gemm_workspace_bytes(isa, g, threads)), other(gemm_workspace_bytes(isa, next, threads));
  gemm_pair(pool_of(threads), isa, g, workspace.data(), next, other.data());
  EXPECT_TRUE(workspace.intact() && other.intact()) << first.name() << ", " << second.name();
  return {std::move(c), std::move(d)};
}

inline void check(const Case& test, std::initializer_list<int> pools = {1, 2, 3}) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const Matrix first = run(test, isa, 1);
    test.expect_right(first);
    for (int threads : pools)
      EXPECT_TRUE(run(test, isa, threads).same_bits(first)) << threads << " threads, " << test.name();
    if (::testing::Test::HasFailure()) return;
  }
}

// Variant v of 256: types (bf16 or f16 as well as f32), transpositions, bias, addend.
inline Case variant(int64_t m, int64_t n, int64_t k, uint32_t v) {
  const DType narrow = v >> 7 ? DType::f16 : DType::bf16;
  const auto type = [&](int bit) { return (v >> bit) & 1 ? narrow : DType::f32; };
  Gemm g{.m = m, .n = n, .k = k, .a_type = type(0), .b_type = type(1), .c_type = type(2)};
  g.a_transposed = (v >> 3) & 1;
  g.b_transposed = (v >> 4) & 1;
  return Case(g, (v >> 5) & 1, v + static_cast<uint32_t>(m + 3 * n + 7 * k), (v >> 6) & 1);
}

}  // namespace lathe::cpu::testing
