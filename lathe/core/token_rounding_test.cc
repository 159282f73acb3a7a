#include "lathe/core/token_rounding.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(TokenRounding, FillsUpByAThirtySecondAtMost) {
  constexpr TokenRounding kRounding{2, 32};
  for (int64_t tokens = 1; tokens <= 5000; ++tokens) {
    const int64_t rounded = kRounding(tokens);
    ASSERT_GE(rounded, tokens);
    ASSERT_EQ(rounded % kRounding.least, 0);
    ASSERT_LE(rounded - tokens, std::max<int64_t>(kRounding.least - 1, std::min<int64_t>(tokens / 32, 31)))
        << tokens;
  }
}

TEST(TokenRounding, MoreTokensAreNeverLessAndARoundNumberStays) {
  for (const TokenRounding rounding : {TokenRounding{1, 1}, TokenRounding{2, 32}, TokenRounding{64, 64}})
    for (int64_t tokens = 1; tokens <= 5000; ++tokens) {
      ASSERT_LE(rounding(tokens), rounding(tokens + 1)) << tokens;
      ASSERT_EQ(rounding(rounding(tokens)), rounding(tokens)) << tokens;
    }
}

TEST(TokenRounding, HoldsItsBounds) {
  constexpr TokenRounding kCpu{2, 32}, kGpu{64, 64};
  EXPECT_EQ(kCpu(11), 12);
  EXPECT_EQ(kCpu(257), 264);
  EXPECT_EQ(kCpu(1025), 1056);
  EXPECT_EQ(kCpu(100001), 100032);
  EXPECT_EQ(kGpu(11), 64);
}

}  // namespace
}  // namespace lathe
