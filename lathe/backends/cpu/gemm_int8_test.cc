#include "lathe/backends/cpu/gemm_int8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lathe::cpu {
namespace {

struct alignas(64) Line {
  char bytes[64];
};

std::vector<float> draw(int64_t n, uint32_t salt) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = (static_cast<uint32_t>(i) + salt) * 2654435761u;
    x[static_cast<size_t>(i)] = static_cast<float>(bits >> 8) / 16777216.f - 0.5f;
  }
  return x;
}

std::vector<float> product(int threads, Isa isa, int64_t m, int64_t n, int64_t k, const float* x,
                           const std::vector<float>& w, bool packed) {
  ThreadPool pool(threads);
  std::vector<float> y(static_cast<size_t>(m * n), NAN);
  std::vector<Line> copy(packed_int8_bytes(isa, n, k) / 64 + 1);
  Int8Product p{
      .m = m, .n = n, .k = k, .ldx = k, .ldy = n, .x = x, .w = w.data(), .packed = packed, .y = y.data()};
  if (packed) {
    pack_int8(pool, isa, n, k, w.data(), copy.data());
    p.w = copy.data();
  }
  std::vector<Line> workspace(int8_workspace_bytes(isa, p, threads) / 64 + 1);
  int8_product(pool, isa, p, workspace.data());
  return y;
}

TEST(GemmInt8, BitsDependNeitherOnThreadsNorOnOtherRowsNorOnThePacking) {
  constexpr int64_t kM = 83, kN = 75, kK = 1700;  // more than one block of k on every level
  const std::vector<float> x = draw(kM * kK, 1), w = draw(kN * kK, 2);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const std::vector<float> wanted = product(1, isa, kM, kN, kK, x.data(), w, true);
    EXPECT_EQ(product(3, isa, kM, kN, kK, x.data(), w, true), wanted);
    EXPECT_EQ(product(2, isa, kM, kN, kK, x.data(), w, false), wanted);
    for (int64_t row : {int64_t{0}, int64_t{40}, kM - 1}) {
      const std::vector<float> alone = product(1, isa, 1, kN, kK, x.data() + row * kK, w, true);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), wanted.begin() + row * kN)) << "row " << row;
    }
  }
}

// The largest sum that the longest product can have.
TEST(GemmInt8, TheLongestSumsAreExact) {
  const std::vector<float> ones(kInt8MostTerms, 1), minus(kInt8MostTerms, -1);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    EXPECT_FLOAT_EQ(product(1, isa, 1, 1, kInt8MostTerms, ones.data(), ones, true)[0], kInt8MostTerms);
    EXPECT_FLOAT_EQ(product(1, isa, 1, 1, kInt8MostTerms, ones.data(), minus, true)[0], -kInt8MostTerms);
  }
}

}  // namespace
}  // namespace lathe::cpu
