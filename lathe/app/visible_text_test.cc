#include "lathe/app/visible_text.h"

#include <gtest/gtest.h>

#include <string>

namespace lathe {
namespace {

TEST(VisibleText, ShowsControlCharactersByNumber) {
  EXPECT_EQ(visible_text("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(visible_text("a\rb\x7f"), "a\\x0db\\x7f");
  EXPECT_EQ(visible_text("\xc2\x9b"
                         "31m"),
            "\\x9b31m");
  EXPECT_EQ(visible_text(std::string("\0", 1)), "\\x00");
}

TEST(VisibleText, LeavesTheRestAsItIs) {
  for (const char* text : {"", "two\tcolumns\nand lines", "\xc2\xa0 \xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80",
                           "back\\slash", "cut \xc2",
                           "\xc2"
                           "A",
                           "\xc2:"})
    EXPECT_EQ(visible_text(text), text);
}

TEST(VisibleText, OfALineHasNoEnd) { EXPECT_EQ(visible_line("run\n1\t\x1b"), "run\\n1\\t\\x1b"); }

}  // namespace
}  // namespace lathe
