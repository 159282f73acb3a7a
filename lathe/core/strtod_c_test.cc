#include "lathe/core/strtod_c.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/core/comma_locale_testing.h"

namespace lathe {
namespace {

TEST(StrtodC, ReadsAPointUnderALocaleWithAComma) {
  const CommaLocale locale;
  if (!locale) GTEST_SKIP() << "needs a locale with a decimal comma, or localedef to make one";
  ASSERT_EQ(std::strtod("0,25", nullptr), 0.25);
  const char* text = "-1.5x";
  char* end = nullptr;
  EXPECT_EQ(strtod_c(text, &end), -1.5);
  EXPECT_EQ(end, text + 4);
  EXPECT_EQ(strtod_c("0,25"), 0);
}

TEST(StrtodC, TakesWhatStrtodTakes) {
  EXPECT_EQ(strtod_c(" +2.5e1"), 25);
  EXPECT_EQ(strtod_c("0x1p-2"), 0.25);
  EXPECT_EQ(strtod_c("1e999"), HUGE_VAL);
  EXPECT_EQ(strtod_c("1e-999"), 0);
  EXPECT_TRUE(std::isnan(strtod_c("nan")));
}

}  // namespace
}  // namespace lathe
