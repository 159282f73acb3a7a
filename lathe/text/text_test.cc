#include "lathe/text/text.h"

#include <gtest/gtest.h>

#include <string>

#include "lathe/core/error_testing.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

TEST(Text, SaysHowAFileBecomesUtf8) {
  const auto refused = [](std::string_view bytes) {
    return message_of(ErrorCode::kInvalidData, [&] { check_utf8(bytes, "t"); });
  };
  EXPECT_EQ(
      refused("a\nx\xE4y"),
      "t:2: byte 2 of the line is 0xe4, no UTF-8; expected UTF-8 text: convert the file, e.g. with iconv -f "
      "latin1 -t utf-8");
  for (const std::string_view bytes :
       {std::string_view("\xFF\xFEt\0", 4), std::string_view("\xFE\xFF\0t", 4)})
    EXPECT_EQ(
        refused(bytes),
        "t: begins as UTF-16 text does; expected UTF-8 text: convert the file, e.g. with iconv -f utf-16 "
        "-t utf-8");
}

TEST(Text, EncodesWhatItDecodes) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80";
  std::string back;
  for (const char32_t c : decode_utf8(text)) unicode::append_utf8(c, &back);
  EXPECT_EQ(back, text);
  EXPECT_EQ(decode_utf8("\xFFz"), (std::vector<char32_t>{0xFFFD, 'z'}));
}

TEST(Text, SlicesByCodePoints) {
  const std::string text = "a\xC3\xA4\xE2\x82\xACz";
  EXPECT_EQ(slice_code_points(text, 1, 3), "\xC3\xA4\xE2\x82\xAC");
  EXPECT_EQ(slice_code_points(text, 3, 99), "z");
  EXPECT_EQ(slice_code_points(text, 2, 2), "");
  EXPECT_EQ(slice_code_points(text, 9, 12), "");
}

TEST(Text, StripsAndSplitsAsPython) {
  EXPECT_EQ(lstrip(" \t\n\xC2\xA0\xE3\x80\x80x "), "x ");
  EXPECT_EQ(lstrip(" \x1C\x1F"), "");
  EXPECT_EQ(lstrip("\xE2\x80\x8B x"), "\xE2\x80\x8B x");  // zero-width space is no white space
  EXPECT_EQ(split_words("  a\xE2\x80\x83 b\n"), (std::vector<std::string_view>{"a", "b"}));
  EXPECT_TRUE(split_words(" \t").empty());
}

TEST(Text, SplitsAtCommas) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(split_at_commas("a, b,"), (Parts{"a", " b", ""}));
  EXPECT_EQ(split_at_commas("a"), Parts{"a"});
  EXPECT_EQ(split_at_commas(""), Parts{""});
}

TEST(Text, LowersAsPython) {
  EXPECT_EQ(to_lower("AbC \xC3\x84\xC3\x89 \xD0\x96"), "abc \xC3\xA4\xC3\xA9 \xD0\xB6");
  EXPECT_EQ(to_lower("\xC4\xB0"), "i\xCC\x87");
  EXPECT_EQ(to_lower("\xCE\x91\xCE\xA3 \xCE\xA3"), "\xCE\xB1\xCF\x82 \xCF\x83");  // final only after a letter
  EXPECT_EQ(to_lower("\xCE\x91\xCE\xA3.\xCE\x91"), "\xCE\xB1\xCF\x83.\xCE\xB1");
}

}  // namespace
}  // namespace lathe
