#include "lathe/text/normal_form.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

std::string in_form(std::string_view text, NormalForm form) {
  std::vector<Change> changes;
  to_normal_form(text, form, &changes);
  std::string out;
  for (const Change& c : changes) unicode::append_utf8(c.cp, &out);
  return out;
}

TEST(NormalForm, MarksAreOrderedAndComposed) {
  EXPECT_EQ(in_form("e\u0302\u0323", NormalForm::kNfc), "\u1ec7");
  EXPECT_EQ(in_form("\u1ec7", NormalForm::kNfd), "e\u0323\u0302");
  EXPECT_EQ(in_form("\u0301e\u0301\u0301", NormalForm::kNfc), "\u0301\u00e9\u0301");
  EXPECT_EQ(in_form("\ufb01\u212b", NormalForm::kNfkc), "fi\u00c5");
  EXPECT_EQ(in_form("\ufb01\u212b", NormalForm::kNfc), "\ufb01\u00c5");
}

TEST(NormalForm, HangulIsArithmetic) {
  EXPECT_EQ(in_form("\u1112\u1161\u11ab", NormalForm::kNfc), "\ud55c");
  EXPECT_EQ(in_form("\ud55c", NormalForm::kNfd), "\u1112\u1161\u11ab");
  EXPECT_EQ(in_form("\ud558\u11ab", NormalForm::kNfc), "\ud55c");
  EXPECT_EQ(in_form("\ud6c8", NormalForm::kNfd), "\u1112\u116e\u11ab");  // a vowel that is not the first
  EXPECT_EQ(in_form("\u1112\u116e\u11ab", NormalForm::kNfc), "\ud6c8");
}

TEST(NormalForm, WhatIsInItIsSeenWithoutBuildingIt) {
  EXPECT_TRUE(is_in_form("caf\u00e9 \u4e16", NormalForm::kNfc));
  EXPECT_FALSE(is_in_form("cafe\u0301", NormalForm::kNfc));
  EXPECT_FALSE(is_in_form("caf\u00e9", NormalForm::kNfd));
  EXPECT_FALSE(is_in_form("\ud55c", NormalForm::kNfd));
  EXPECT_FALSE(is_in_form("\ufb01", NormalForm::kNfkc));
}

std::vector<std::string> graphemes(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = unicode::grapheme_end(text, at);
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

TEST(Graphemes, BreakAsUax29Says) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(graphemes("a\u0301b\r\n\n"), (Texts{"a\u0301", "b", "\r\n", "\n"}));
  EXPECT_EQ(graphemes("\u1112\u1161\u11ab\u1112"), (Texts{"\u1112\u1161\u11ab", "\u1112"}));
  EXPECT_EQ(graphemes("\u00a9\u200d\u00a9x\u200d\u00a9"), (Texts{"\u00a9\u200d\u00a9", "x\u200d", "\u00a9"}));
  EXPECT_EQ(graphemes("\u0600a\u0903"), (Texts{"\u0600a\u0903"}));
  EXPECT_EQ(graphemes("\u0915\u094d\u0937\u0915"), (Texts{"\u0915\u094d\u0937", "\u0915"}));
  EXPECT_EQ(graphemes("\u0001\u0301"), (Texts{"\u0001", "\u0301"}));
}

}  // namespace
}  // namespace lathe
