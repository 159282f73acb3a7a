#include "lathe/backends/cpu/blas.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "lathe/backends/cpu/blas_testing.h"
#include "lathe/backends/cpu/cpu_backend.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/error.h"
#include "lathe/core/test_folder.h"

namespace lathe::cpu {
namespace {

#define LT_NEED_BLAS(blas)             \
  const auto blas = blas_of_machine(); \
  if (!blas) GTEST_SKIP() << kNoBlas

struct alignas(64) Line {
  std::byte bytes[64];
};

/// The sum that blas_gemm should give for c[i][j], and Σ|terms|.
std::pair<double, double> exact(const Gemm& g, const std::vector<float>& addend, int64_t i, int64_t j) {
  double sum = 0, size = 0;
  const auto add = [&](double term) { sum += term, size += std::abs(term); };
  for (int64_t k = 0; k < g.k; ++k) {
    const double a = static_cast<const float*>(g.a)[g.a_transposed ? k * g.lda + i : i * g.lda + k];
    const double b = static_cast<const float*>(g.b)[g.b_transposed ? j * g.ldb + k : k * g.ldb + j];
    add(a * b);
  }
  if (g.bias != nullptr) add(g.bias[j]);
  if (g.addend != nullptr) add(addend[static_cast<size_t>(i * g.ldc + j)]);
  return {sum, size};
}

TEST(Blas, ProductsOfALinearLayerAreWithinTheBoundOfTheirSums) {
  LT_NEED_BLAS(blas);
  ThreadPool pool(2);
  std::minstd_rand random(7);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t count) {
    std::vector<float> x(static_cast<size_t>(count));
    for (float& v : x) v = normal(random);
    return x;
  };
  const int64_t m = 37, n = 29, k = 83;
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true})
      for (const char* ends : {"", "bias", "addend", "in place", "both"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", a_transposed, b_transposed, ends));
        const auto is = [&](const char* name) { return std::strcmp(ends, name) == 0; };
        const std::vector<float> a = values(m * k), b = values(k * n), bias = values(n),
                                 addend = values(m * n);
        std::vector<float> c(static_cast<size_t>(m * n), NAN);
        Gemm g{.m = m, .n = n, .k = k, .a_transposed = a_transposed, .b_transposed = b_transposed};
        g.a = a.data(), g.lda = a_transposed ? m : k;
        g.b = b.data(), g.ldb = b_transposed ? k : n;
        g.c = c.data(), g.ldc = n;
        if (is("bias") || is("both")) g.bias = bias.data();
        if (is("addend") || is("both")) g.addend = addend.data();
        if (is("in place")) c = addend, g.addend = c.data();
        ASSERT_TRUE(blas_takes(g));
        blas_gemm(*blas, pool, g);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const auto [sum, size] = exact(g, addend, i, j);
            ASSERT_NEAR(c[static_cast<size_t>(i * n + j)], sum, static_cast<double>(k + 2) * 0x1p-24 * size)
                << i << ", " << j;
          }
      }
}

TEST(Blas, TakesWhatItCanCountAndIsF32Throughout) {
  const Gemm g{.m = 2, .n = 3, .k = 4, .lda = 4, .ldb = 3, .ldc = 3};
  EXPECT_TRUE(blas_takes(g));
  Gemm other = g;
  other.a_type = DType::bf16;
  EXPECT_FALSE(blas_takes(other));
  other = g, other.c_type = DType::f16;
  EXPECT_FALSE(blas_takes(other));
  other = g, other.b_packed = true;
  EXPECT_FALSE(blas_takes(other));
  other = g, other.m = int64_t{1} << 31;
  EXPECT_FALSE(blas_takes(other));
  other = g, other.ldb = int64_t{1} << 31;
  EXPECT_FALSE(blas_takes(other));
}

TEST(Blas, WhatIsNoSuchLibraryIsRefusedByItsNameAndAWayOut) {
  const auto refusal = [](const std::string& path) -> std::string {
    try {
      open_blas(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("/nowhere/libblas.so").find("LATHE_BLAS: /nowhere/libblas.so does not open ("),
            std::string::npos);
#if defined(__linux__)
  const std::string without = refusal("libm.so.6");
  EXPECT_NE(without.find("libm.so.6 has no cblas_sgemm ("), std::string::npos) << without;
  EXPECT_NE(without.find("none for Lathe's own products"), std::string::npos) << without;
#endif
}

/// Libraries as they might be: Lathe's own products, or these with operands rounded to TF32.
template <bool kRounds>
void another_sgemm(int, int a_transposed, int b_transposed, int m, int n, int k, float, const float* a,
                   int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  const auto operand = [](const float* x, int rows, int ld) {
    std::vector<float> rounded(x, x + static_cast<size_t>(rows) * static_cast<size_t>(ld));
    for (float& value : rounded) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      if (kRounds) bits = (bits + 0x1000) & ~0x1fffu;
      std::memcpy(&value, &bits, sizeof bits);
    }
    return rounded;
  };
  Gemm g{.m = m, .n = n, .k = k, .a_transposed = a_transposed == 112, .b_transposed = b_transposed == 112};
  const std::vector<float> of_a = operand(a, g.a_transposed ? k : m, lda);
  const std::vector<float> of_b = operand(b, g.b_transposed ? n : k, ldb);
  g.a = of_a.data(), g.lda = lda, g.b = of_b.data(), g.ldb = ldb, g.c = c, g.ldc = ldc;
  if (beta == 1) g.addend = c;
  std::vector<Line> workspace(gemm_workspace_bytes(chosen_isa(), g, 1) / sizeof(Line) + 1);
  ThreadPool self(1);
  gemm(self, chosen_isa(), g, workspace.data());
}

/// Takes four times as long as the product itself, however long that takes on this machine.
void slow_sgemm(int order, int a_transposed, int b_transposed, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  const auto start = std::chrono::steady_clock::now();
  another_sgemm<false>(order, a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  const auto once = std::chrono::steady_clock::now() - start;
  std::this_thread::sleep_for(std::chrono::milliseconds(20) + 3 * once);
}

TEST(Blas, IsMeasuredBesideOwnProductsAndFoundSlow) {
  ThreadPool pool(1);
  const KernelVerdict verdict = measure_blas({"slow", slow_sgemm}, pool, chosen_isa());
  EXPECT_TRUE(verdict.right);
  EXPECT_GT(verdict.us, verdict.parts_us);
  EXPECT_GT(verdict.us, 3 * 20e3);
  EXPECT_FALSE(verdict.good());
}

TEST(Blas, RoundedOperandsAreFoundWrong) {
  ThreadPool pool(1);
  EXPECT_FALSE(measure_blas({"rounding", another_sgemm<true>}, pool, chosen_isa()).right);
}

TEST(Blas, SumsThatDifferFromCallToCallAreFoundWrong) {
  static int calls;
  const auto sgemm = [](int order, int a_transposed, int b_transposed, int m, int n, int k, float alpha,
                        const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
    another_sgemm<false>(order, a_transposed, b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const bool exact = std::abs(c[0]) < 0x1p24f;
    if (++calls % 2 != 0 && !exact) c[0] = std::nextafter(c[0], 0.0f);
  };
  ThreadPool pool(1);
  EXPECT_FALSE(measure_blas({"unsteady", sgemm}, pool, chosen_isa()).right);
}

class BlasChoiceTest : public testing::Test {
 protected:
  BlasChoice choice(const std::string& setting, const std::string& system) {
    return {setting, system, cache_, pool_, chosen_isa()};
  }
  TestFolder folder_;
  const std::string cache_ = folder_ / "kept/products.txt";
  ThreadPool pool_{1};
};

TEST_F(BlasChoiceTest, WithoutALibraryOrWithNoneProductsAreOwn) {
  EXPECT_EQ(choice("", "").used(), nullptr);
  EXPECT_EQ(choice("", "").tuning(), "");
  EXPECT_EQ(choice("", "/nowhere/libblas.so").used(), nullptr);
  EXPECT_EQ(choice("none", "").tuning(), "f32 products: own\n")
      << "to be found where it is resumed without it";
  LT_NEED_BLAS(blas);
  EXPECT_EQ(choice("none", blas_file()).used(), nullptr);
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

TEST_F(BlasChoiceTest, ANamedLibraryIsUsedUnmeasured) {
  EXPECT_THROW(choice("/nowhere/libblas.so", ""), Error);
  LT_NEED_BLAS(blas);
  BlasChoice named = choice(blas_file(), "");
  ASSERT_NE(named.used(), nullptr);
  EXPECT_EQ(named.used()->name, blas->name);
  EXPECT_FALSE(std::filesystem::exists(cache_));
  named.adopt("f32 products: own\n");
  EXPECT_NE(named.used(), nullptr) << "a setting outdoes a checkpoint";
}

TEST_F(BlasChoiceTest, TheSystemsIsMeasuredOnceAndItsVerdictKept) {
  LT_NEED_BLAS(blas);
  const bool used = choice("", blas_file()).used() != nullptr;
  const std::string kept = read_cache(cache_);
  EXPECT_NE(kept.find("right\t"), std::string::npos) << kept;
  EXPECT_NE(kept.find(blas->name), std::string::npos) << kept;
  EXPECT_EQ(choice("", blas_file()).used() != nullptr, used);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '\n'), 1);
  EXPECT_EQ(read_cache(cache_), kept) << "measured again";
  // The kept verdict decides.
  const std::string key = kept.substr(kept.rfind('\t') + 1);
  for (const auto& [verdict, wanted] : {std::pair("right\t1\t2\t", true), std::pair("right\t2\t1\t", false),
                                        std::pair("wrong\t1\t2\t", false)}) {
    write_cache(cache_, verdict + key);
    EXPECT_EQ(choice("", blas_file()).used() != nullptr, wanted) << verdict;
  }
}

TEST_F(BlasChoiceTest, ACheckpointsChoiceOutdoesTheVerdict) {
  LT_NEED_BLAS(blas);
  choice("", blas_file());
  const std::string kept = read_cache(cache_), key = kept.substr(kept.rfind('\t') + 1);
  write_cache(cache_, "right\t1\t2\t" + key);
  BlasChoice fast = choice("", blas_file());
  write_cache(cache_, "right\t2\t1\t" + key);
  BlasChoice slow = choice("", blas_file());
  ASSERT_NE(fast.tuning(), slow.tuning());
  const std::string of_fast = fast.tuning();
  fast.adopt(slow.tuning());
  EXPECT_EQ(fast.used(), nullptr);
  slow.adopt(of_fast);
  EXPECT_NE(slow.used(), nullptr);
  for (const char* foreign : {"", "cublaslt 12 a GPU\n", "f32 products: another library\n"}) {
    slow.adopt(foreign);
    EXPECT_EQ(slow.tuning(), of_fast) << foreign;
  }
}

}  // namespace
}  // namespace lathe::cpu
