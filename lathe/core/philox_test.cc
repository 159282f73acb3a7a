#include "lathe/core/philox.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

using Words = std::array<uint32_t, 4>;

/// Source: Random123's kat_vectors, philox4x32 with 7 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, ones, ones),
            (Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
}

TEST(Philox, ARateOfDropoutIsRoundedToA65536th) {
  EXPECT_EQ(dropout_threshold(0.1), 6554u);
  EXPECT_EQ(dropout_scale(0.5), 2.0f);
}

}  // namespace
}  // namespace lathe
