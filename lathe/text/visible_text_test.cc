#include "lathe/text/visible_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace lathe {
namespace {

TEST(VisibleText, ShowsControlCharactersByNumber) {
  EXPECT_EQ(visible_text("\x1b[31mred\x1b]0;title\x07"), "\\x1b[31mred\\x1b]0;title\\x07");
  EXPECT_EQ(visible_text("a\rb\x7f"), "a\\x0db\\u007f");
  EXPECT_EQ(visible_text("\xc2\x9b"
                         "31m"),
            "\\u009b31m");
  EXPECT_EQ(visible_text(std::string("\0", 1)), "\\x00");
}

TEST(VisibleText, ShowsEveryControlCharacterBeyondAscii) {
  for (unsigned c = 0x80; c <= 0x9f; ++c)
    EXPECT_EQ(visible_text(std::string("\xc2") + static_cast<char>(c)), fmt::format("\\u{:04x}", c));
}

TEST(VisibleText, ShowsWhatIsNoUtf8) {
  EXPECT_EQ(visible_text("cut \xc2"), "cut \\xc2");
  EXPECT_EQ(visible_text("\xc2:"), "\\xc2:");
  EXPECT_EQ(visible_text("\x9b"
                         "31m"),
            "\\x9b31m");
  EXPECT_EQ(visible_text("\xe0\x82\x9b"
                         "31m"),
            "\\xe0\\x82\\x9b31m");  // U+009B in three bytes
}

TEST(VisibleText, ShowsWhatTurnsTheOrderOfALineAround) {
  EXPECT_EQ(visible_text("a\xe2\x80\xae"
                         "b\xe2\x81\xa6"
                         "c"),
            "a\\u202eb\\u2066c");
}

TEST(VisibleText, LeavesTheRestAsItIs) {
  for (const char* text : {"", "two\tcolumns\nand lines", "\xc2\xa0 \xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80",
                           "back\\slash", "\xd7\xa9\xe2\x80\x8f \xd8\xa7"})
    EXPECT_EQ(visible_text(text), text);
}

TEST(VisibleText, OfALineHasNoEnd) { EXPECT_EQ(visible_line("run\n1\t\x1b"), "run\\n1\\t\\x1b"); }

}  // namespace
}  // namespace lathe
