// Every way of the own kernels for products, which a program takes by time: against sums in double.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lathe/backends/cuda/kernels/products/f32_product.h"
#include "lathe/backends/cuda/kernels/products/few_rows_product.h"
#include "lathe/backends/cuda/kernels/products/weight_gradient.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/core/error.h"
#include "lathe/core/float16.h"
#include "lathe/core/philox.h"

namespace lathe::cuda {
namespace {

/// `count` elements on the GPU, some guard elements after them that nobody may write, and the host's copy of
/// both.
class Tensor {
 public:
  Tensor(DType type, int64_t count)
      : type_(type), count_(static_cast<size_t>(count)), host_(bytes() + kBehind, kPoison) {
    EXPECT_EQ(cudaMalloc(&device_, host_.size()), cudaSuccess);
    poison();
  }
  ~Tensor() { cudaFree(device_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  void* get() const { return device_; }
  size_t bytes() const { return count_ * size_of(type_); }
  size_t count() const { return count_; }
  void poison() { EXPECT_EQ(cudaMemset(device_, kPoison, host_.size()), cudaSuccess); }
  void upload() {
    EXPECT_EQ(cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  void download() {
    EXPECT_EQ(cudaMemcpy(host_.data(), device_, host_.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  }
  bool behind_is_whole() const {
    return std::all_of(host_.begin() + static_cast<std::ptrdiff_t>(bytes()), host_.end(),
                       [](unsigned char c) { return c == kPoison; });
  }
  double operator[](size_t i) const {
    if (type_ == DType::f32) return reinterpret_cast<const float*>(host_.data())[i];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(host_.data())[i];
    return type_ == DType::bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
  }
  void set(size_t i, float x) {
    if (type_ == DType::f32)
      reinterpret_cast<float*>(host_.data())[i] = x;
    else
      reinterpret_cast<uint16_t*>(host_.data())[i] = type_ == DType::bf16 ? to_bf16(x).bits : to_f16(x).bits;
  }
  /// Uniform in (−1, 1).
  void fill(uint32_t seed) {
    for (size_t i = 0; i < count_; ++i)
      set(i, static_cast<float>(philox({static_cast<uint32_t>(i), seed, 0, 0}, 1, 2)[0] * 0x1p-31 - 1));
    upload();
  }
  /// The same times powers of two from 2⁻²⁰ to 2²⁰.
  void fill_with_sizes(uint32_t seed) {
    for (size_t i = 0; i < count_; ++i) {
      const auto words = philox({static_cast<uint32_t>(i), seed, 0, 0}, 1, 2);
      set(i, static_cast<float>(std::ldexp(words[0] * 0x1p-31 - 1, static_cast<int>(words[1] % 41) - 20)));
    }
    upload();
  }
  std::vector<unsigned char> content() const {
    return {host_.begin(), host_.begin() + static_cast<std::ptrdiff_t>(bytes())};
  }

 private:
  static constexpr size_t kBehind = 4096;
  static constexpr unsigned char kPoison = 0xff;  // NaN
  DType type_;
  size_t count_;
  std::vector<unsigned char> host_;
  void* device_ = nullptr;
};

/// Waits for a launch and fetches what it wrote.
void finish(cudaError_t launched, std::initializer_list<Tensor*> written) {
  ASSERT_EQ(launched, cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (Tensor* each : written) each->download();
}

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Half a unit in the last place of x in its dtype; f32 too, for sums.
double rounding(DType type, double x) {
  return std::abs(x) * (type == DType::bf16 ? 0x1p-8 : type == DType::f16 ? 0x1p-11 : 0x1p-24) + 1e-7;
}

struct Size {
  int64_t m, n, k;
};
constexpr DType kTypes[] = {DType::bf16, DType::f16};

class OwnProducts : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  }
};

/// Where no way was taken: a GPU that the kernels are not for, or a fault.
void check_tried(int tried) {
  cudaDeviceProp gpu{};
  ASSERT_EQ(cudaGetDeviceProperties(&gpu, 0), cudaSuccess);
  if (gpu.major != 9 || gpu.minor != 0)
    GTEST_SKIP() << "needs a GPU of compute capability 9.0, found " << gpu.major << '.' << gpu.minor;
  EXPECT_GT(tried, 0) << "no way accepts; was sm_90a left out of LATHE_CUDA_ARCHITECTURES?";
}

/// Sum over k of a(i, k) · b(k, j), and of the magnitudes: each of the k additions in f32 may be off by
/// 2⁻²⁴ of what is summed so far.
struct Sum {
  double value = 0, magnitude = 0, off = 0;
};
template <typename A, typename B>
Sum sum_of(int64_t k, A a, B b) {
  Sum sum;
  for (int64_t i = 0; i < k; ++i) sum.value += a(i) * b(i), sum.magnitude += std::abs(a(i) * b(i));
  sum.off = 0x1p-24 * static_cast<double>(k) * sum.magnitude;
  return sum;
}

/// Against sums in double; then the same bits once more, and of gelu without C.
void check_few_rows(int way, DType type, const Size& size, bool has_bias, bool has_gelu, int& tried) {
  const auto [m, n, k] = size;
  SCOPED_TRACE(fmt::format("way {}, {}, {} x {} x {}", way, name_of(type), m, n, k));
  Tensor a(type, m * k), b(type, n * k), bias(type, n + 1), c(type, m * n), y(type, m * n);
  a.fill(1), b.fill(2), bias.fill(3);
  Product p{m, n, k, type, false, type, false, true, a.get(), b.get(), c.get()};
  if (has_gelu) p.gelu = y.get();
  if (has_bias) p.bias = static_cast<std::byte*>(bias.get()) + size_of(type);  // on any address
  if (!few_rows_product_accepts(p, way)) return;
  ++tried;
  finish(few_rows_product(nullptr, p, way), {&c, &y});
  for (int64_t row = 0; row < m; row += m / 30 + 1)
    for (int64_t col = 0; col < n; ++col) {
      const auto at = static_cast<size_t>(row * n + col);
      const Sum sum = sum_of(
          k, [&](int64_t i) { return a[static_cast<size_t>(row * k + i)]; },
          [&](int64_t i) { return b[static_cast<size_t>(col * k + i)]; });
      const double x = sum.value + (has_bias ? bias[static_cast<size_t>(col) + 1] : 0);
      ASSERT_LE(std::abs(c[at] - x), sum.off + rounding(type, x)) << row << ", " << col;
      if (has_gelu) {
        ASSERT_LE(std::abs(y[at] - gelu(c[at])), rounding(type, gelu(c[at])) + 3e-7 * std::abs(c[at]))
            << row << ", " << col << ": " << c[at];
      }
    }
  const auto first = y.content(), stored = c.content();
  y.poison(), c.poison();
  p.b_is_settled = true;
  finish(few_rows_product(nullptr, p, way), {&c, &y});
  EXPECT_EQ(y.content(), first);
  EXPECT_EQ(c.content(), stored);
  EXPECT_TRUE(y.behind_is_whole() && c.behind_is_whole());
  if (!has_gelu) return;
  y.poison(), c.poison();
  p.c_is_read = false;
  finish(few_rows_product(nullptr, p, way), {&c, &y});
  EXPECT_EQ(y.content(), first) << "without C";
}

TEST_F(OwnProducts, ALinearLayerOfFewRows) {
  int tried = 0;
  for (int way = 0; way < few_rows_product_ways(); ++way)
    for (const DType type : kTypes)
      for (const Size& size :
           {Size{1, 8, 512}, {12, 768, 768}, {64, 72, 520}, {65, 40, 1544}, {300, 136, 600}})
        for (const bool has_bias : {false, true})
          for (const bool has_gelu : {false, true})
            check_few_rows(way, type, size, has_bias, has_gelu, tried);
  check_tried(tried);
}

TEST_F(OwnProducts, GradientOfAWeight) {
  int tried = 0;
  for (int way = 0; way < weight_gradient_ways(); ++way)
    for (const DType type : kTypes)
      for (const DType to : {type, DType::f32})
        for (const auto [m, n, k] : {Size{64, 64, 1}, {192, 128, 37}, {320, 192, 700}, {128, 448, 3001}}) {
          SCOPED_TRACE(
              fmt::format("way {}, {} to {}, {} x {} x {}", way, name_of(type), name_of(to), m, n, k));
          Tensor a(type, k * m), b(type, k * n), c(to, m * n), sums(DType::f32, m);
          a.fill(1), b.fill(2);
          Product p{m, n, k, type, false, to, true, false, a.get(), b.get(), c.get()};
          p.a_sums = static_cast<float*>(sums.get());
          if (!weight_gradient_accepts(p, way)) continue;
          ++tried;
          finish(weight_gradient(nullptr, p, way), {&c, &sums});
          for (int64_t row = 0; row < m; row += m / 30 + 1) {
            const auto of_a = [&](int64_t i) { return a[static_cast<size_t>(i * m + row)]; };
            const Sum total = sum_of(k, of_a, [](int64_t) { return 1.0; });
            ASSERT_LE(std::abs(sums[static_cast<size_t>(row)] - total.value),
                      total.off + rounding(DType::f32, total.value))
                << row;
            for (int64_t col = 0; col < n; ++col) {
              const Sum sum = sum_of(k, of_a, [&](int64_t i) { return b[static_cast<size_t>(i * n + col)]; });
              ASSERT_LE(std::abs(c[static_cast<size_t>(row * n + col)] - sum.value),
                        sum.off + rounding(to, sum.value))
                  << row << ", " << col;
            }
          }
          const auto first = c.content();
          c.poison();
          finish(weight_gradient(nullptr, p, way), {&c, &sums});
          EXPECT_EQ(c.content(), first);
          EXPECT_TRUE(c.behind_is_whole() && sums.behind_is_whole());
        }
  check_tried(tried);
}

/// With all the extras that the layout allows, against sums in double; then the same bits once more.
void check_f32(int way, const Size& size, bool a_transposed, bool b_transposed, bool of_sizes, int& tried) {
  const auto [m, n, k] = size;
  SCOPED_TRACE(fmt::format("way {}, {} x {} x {}, transposed {} {}, of sizes {}", way, m, n, k, a_transposed,
                           b_transposed, of_sizes));
  constexpr DType f32 = DType::f32;
  Tensor a(f32, m * k), b(f32, n * k), bias(f32, n + 1), addend(f32, m * n), c(f32, m * n), y(f32, m * n),
      sums(f32, m);
  of_sizes ? a.fill_with_sizes(1) : a.fill(1);
  of_sizes ? b.fill_with_sizes(2) : b.fill(2);
  bias.fill(3), addend.fill(4);
  Product p{m, n, k, f32, false, f32, a_transposed, b_transposed, a.get(), b.get(), c.get()};
  if (a_transposed) p.a_sums = static_cast<float*>(sums.get());
  if (b_transposed) p.bias = static_cast<std::byte*>(bias.get()) + sizeof(float), p.gelu = y.get();
  if (!a_transposed && !b_transposed) p.addend = addend.get();
  if (!f32_product_accepts(p, way)) return;
  ++tried;
  finish(f32_product(nullptr, p, way), {&c, &y, &sums});
  const auto of_a = [&](int64_t row, int64_t i) {
    return a[static_cast<size_t>(a_transposed ? i * m + row : row * k + i)];
  };
  const auto of_b = [&](int64_t col, int64_t i) {
    return b[static_cast<size_t>(b_transposed ? col * k + i : i * n + col)];
  };
  for (int64_t row = 0; row < m; row += m / 30 + 1) {
    for (int64_t col = 0; col < n; ++col) {
      const auto at = static_cast<size_t>(row * n + col);
      const Sum sum = sum_of(
          k, [&](int64_t i) { return of_a(row, i); }, [&](int64_t i) { return of_b(col, i); });
      const double more = p.bias != nullptr     ? bias[static_cast<size_t>(col + 1)]
                          : p.addend != nullptr ? addend[at]
                                                : 0;
      const double off = (0x1p-20 + 0x1p-24 * static_cast<double>(k) / 64) * sum.magnitude;  // f32_product.h
      ASSERT_LE(std::abs(c[at] - (sum.value + more)), off + rounding(f32, sum.value + more))
          << row << ", " << col;
      if (p.gelu == nullptr) continue;
      ASSERT_LE(std::abs(y[at] - gelu(c[at])), 4 * rounding(f32, c[at])) << row << ", " << col;
    }
    if (p.a_sums == nullptr) continue;
    const Sum total = sum_of(
        k, [&](int64_t i) { return of_a(row, i); }, [](int64_t) { return 1.0; });
    ASSERT_LE(std::abs(sums[static_cast<size_t>(row)] - total.value), total.off + rounding(f32, total.value))
        << row;
  }
  const auto first = c.content();
  c.poison();
  finish(f32_product(nullptr, p, way), {&c, &y, &sums});
  EXPECT_EQ(c.content(), first);
  EXPECT_TRUE(c.behind_is_whole() && y.behind_is_whole() && sums.behind_is_whole());
}

TEST_F(OwnProducts, OfF32) {
  int tried = 0;
  for (int way = 0; way < f32_product_ways(); ++way)
    for (const Size& size :
         {Size{64, 64, 64}, {4, 4, 4}, {132, 68, 36}, {200, 260, 300}, {300, 132, 1540}, {64, 448, 3004}})
      for (const bool of_sizes : {false, true}) {
        check_f32(way, size, false, true, of_sizes, tried);
        check_f32(way, size, false, false, of_sizes, tried);
        check_f32(way, size, true, false, of_sizes, tried);
      }
  check_tried(tried);
}

/// Small enough for compute-sanitizer's racecheck, with several parts of the sums.
TEST_F(OwnProducts, OfF32WithTokensOfAnyNumber) {
  int tried = 0;
  for (int way = 0; way < f32_product_ways(); ++way)
    for (const int64_t tokens : {1, 67, 1001}) {
      check_f32(way, {tokens, 68, 132}, false, true, false, tried);
      check_f32(way, {tokens, 68, 132}, false, false, false, tried);
      check_f32(way, {132, 68, tokens}, true, false, false, tried);
    }
  check_tried(tried);
}

TEST_F(OwnProducts, OfF32WhatIsNotFinite) {
  Tensor a(DType::f32, 64 * 64), b(DType::f32, 64 * 64), c(DType::f32, 64 * 64);
  a.fill(1), b.fill(2);
  a.set(3 * 64 + 5, INFINITY), a.set(4 * 64 + 7, NAN), a.set(5 * 64, 3.3e38f), b.set(0, 1e-3f);
  a.upload(), b.upload();
  const Product p{64, 64, 64, DType::f32, false, DType::f32, false, false, a.get(), b.get(), c.get()};
  int tried = 0;
  for (int way = 0; way < f32_product_ways(); ++way) {
    if (!f32_product_accepts(p, way)) continue;
    ++tried;
    finish(f32_product(nullptr, p, way), {&c});
    for (size_t col = 0; col < 64; ++col) {
      EXPECT_TRUE(std::isnan(c[3 * 64 + col]) && std::isnan(c[4 * 64 + col])) << col;
      EXPECT_TRUE(std::isfinite(c[2 * 64 + col]) && std::isfinite(c[6 * 64 + col])) << col;
    }
    EXPECT_NEAR(c[5 * 64] / 3.3e35, 1, 1e-6);
  }
  check_tried(tried);
}

}  // namespace
}  // namespace lathe::cuda
