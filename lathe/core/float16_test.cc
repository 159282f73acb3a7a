#include "lathe/core/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lathe {
namespace {

TEST(Bf16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1 + 0x1p-8f).bits, 0x3f80);      // halfway: the even one is below
  EXPECT_EQ(to_bf16(1 + 3 * 0x1p-8f).bits, 0x3f82);  // halfway: the even one is above
  EXPECT_EQ(to_bf16(1 + 0x1.1p-8f).bits, 0x3f81);    // more than half
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace lathe
