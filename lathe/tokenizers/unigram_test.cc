#include "lathe/tokenizers/unigram.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::vector<ScoredToken> kTokens = {{"<unk>", 0}, {"a", -2},   {"b", -2},
                                          {"ab", -3.5}, {"abc", -9}, {"xy", -30}};

Ids ids(const Unigram& model, std::string_view word) {
  std::vector<Piece> pieces;
  model.split(word, &pieces);
  Ids out;
  for (const Piece& p : pieces) {
    EXPECT_LT(p.begin, p.end);
    EXPECT_LE(p.end, word.size());
    out.push_back(p.id);
  }
  return out;
}

TEST(Unigram, TheBestSumWins) {
  const Unigram model(kTokens, 0, false);
  EXPECT_EQ(ids(model, "ab"), (Ids{3}));  // -3.5 rather than -4
  EXPECT_EQ(ids(model, "aab"), (Ids{1, 3}));
  EXPECT_EQ(ids(model, "abc"), (Ids{4}));  // c is unknown: -40 by itself
  const Unigram equal({{"<unk>", 0}, {"a", -1}, {"aa", -2}, {"aaa", -3}}, 0, false);
  EXPECT_EQ(ids(equal, "aaa"), (Ids{3}));  // the first of equal ones is what was found first: from the left
}

TEST(Unigram, UnknownCharactersAreOnePiece) {
  const Unigram model(kTokens, 0, false);
  EXPECT_EQ(ids(model, "aéüb"), (Ids{1, 0, 2}));
  EXPECT_EQ(ids(model, "xy"), (Ids{5}));
  // Two unknown characters cost less (-80) than this token, which they are all the same.
  const Unigram dear({{"<unk>", 0}, {"xy", -90}, {"z", -30}}, 0, false);
  EXPECT_EQ(ids(dear, "xyz"), (Ids{1, 2}));
}

TEST(Unigram, UnknownBytesWhereAllAreTokens) {
  std::vector<ScoredToken> tokens = kTokens;
  tokens.push_back({"<0xC3>", -50});
  tokens.push_back({"<0xA9>", -50});
  EXPECT_EQ(ids(Unigram(tokens, 0, true), "aé"), (Ids{1, 6, 7}));
  EXPECT_EQ(ids(Unigram(tokens, 0, true), "aéü"), (Ids{1, 0}));  // ü has a byte that is none
  EXPECT_EQ(ids(Unigram(tokens, 0, false), "aé"), (Ids{1, 0}));
}

TEST(Unigram, AWordOfAMegabyte) {
  const Unigram model(kTokens, 0, false);
  EXPECT_EQ(ids(model, std::string(1 << 20, 'a')).size(), size_t{1} << 20);
}

json unigram_json() {
  return json::parse(R"({"normalizer": {"type": "NFKC"},
    "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
    "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
    "model": {"type": "Unigram", "unk_id": 1,
      "vocab": [["<s>", 0], ["<unk>", 0], ["</s>", 0], ["\u2581", -2], ["a", -2.5], ["\u2581a", -3]]}})");
}

Tokenizer unigram_from_json(const json& content) {
  return Tokenizer::from_files(std::vector<NamedFile>{{"tokenizer.json", content.dump()}}, "t");
}

TEST(Unigram, ATokenizerOfItsFile) {
  const Tokenizer t = unigram_from_json(unigram_json());
  const Encoding e = t.encode("a a\uFF41");
  EXPECT_EQ(e.ids, (Ids{5, 5, 4}));
  EXPECT_EQ(e.offsets, (std::vector<std::array<int32_t, 2>>{{0, 1}, {1, 3}, {3, 4}}));
  EXPECT_EQ(e.word_ids, (Ids{0, 1, 1}));
  EXPECT_EQ(t.decode(e.ids), "a aa");
  EXPECT_EQ(t.unk_id(), 1);
  EXPECT_EQ(t.cls_id(), 0);
  EXPECT_EQ(t.sep_id(), 2);
  json old = unigram_json();
  old["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", false}};
  EXPECT_EQ(unigram_from_json(old).encode("a a").ids, (Ids{4, 5}));
  // The files that are written next to it change nothing.
  EXPECT_EQ(Tokenizer::from_files(t.files(), "t").encode("a b a"), t.encode("a b a"));
}

TEST(Unigram, WhatIsWrongIsNamed) {
  const auto message = [](const char* pointer, const json& value) -> std::string {
    json j = unigram_json();
    j[json::json_pointer(pointer)] = value;
    try {
      unigram_from_json(j);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [&](const char* pointer, const json& value, const char* part) {
    const std::string found = message(pointer, value);
    EXPECT_NE(found.find(part), std::string::npos) << pointer << ": " << found;
  };
  expect("/model/unk_id", nullptr, "'unk_id' is missing");
  expect("/model/unk_id", 6, "expected an id of the vocabulary, found 6");
  expect("/model/vocab/3", {"a", 1}, "all different");
  expect("/model/vocab/3", {"c"}, "a token and its score");
  expect("/pre_tokenizer/prepend_scheme", "last", "always, first or never");
  expect("/pre_tokenizer/add_prefix_space", false, "prepend_scheme never");
  expect("/pre_tokenizer/replacement", "ab", "one character");
  expect("/pre_tokenizer/type", "UnicodeScripts", "'UnicodeScripts' is not supported");
  expect("/decoder/type", "CTC", "expected ByteLevel, Metaspace");
  expect("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "\\d"}}}, {"content", ""}}, "Regex \\d");
  expect("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}, "expected base64");
  expect("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}},
         "expected a trie of whole units");
}

}  // namespace
}  // namespace lathe
