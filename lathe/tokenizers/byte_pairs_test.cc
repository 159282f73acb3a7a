#include "lathe/tokenizers/byte_pairs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"
#include "lathe/tokenizers/byte_level.h"
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/tokenizers/word_cache.h"

namespace lathe {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using Words = std::vector<std::string>;

/// All bytes, then what is given.
std::vector<std::pair<std::string, int32_t>> vocabulary(const Words& more) {
  std::vector<std::pair<std::string, int32_t>> out;
  for (int byte = 0; byte < 256; ++byte) out.emplace_back(std::string(1, static_cast<char>(byte)), byte);
  for (const std::string& token : more) out.emplace_back(token, static_cast<int32_t>(out.size()));
  return out;
}

Ids ids(const BytePairs& model, std::string_view word) {
  std::vector<Piece> pieces;
  model.split(word, &pieces);
  Ids out;
  uint32_t end = 0;
  for (const Piece& p : pieces) {
    EXPECT_EQ(p.begin, end);
    end = p.end;
    out.push_back(p.id);
  }
  EXPECT_EQ(end, word.size());
  return out;
}

TEST(BytePairs, LowestRankFirstThenTheLeftmost) {
  const BytePairs model(vocabulary({"bc", "ab", "abc"}), {{"b", "c"}, {"a", "b"}, {"ab", "c"}}, {});
  EXPECT_EQ(ids(model, "abc"), (Ids{'a', 256}));  // so the token abc comes from no text
  EXPECT_EQ(ids(model, "abab"), (Ids{257, 257}));
  const BytePairs same(vocabulary({"aa"}), {{"a", "a"}}, {});
  EXPECT_EQ(ids(same, "aaa"), (Ids{256, 'a'}));
}

TEST(BytePairs, WholeWordsGoBeforeMerges) {
  const BytePairs model(vocabulary({"bc", "ab", "abc"}), {{"b", "c"}, {"a", "b"}, {"ab", "c"}},
                        {.whole_words = true});
  EXPECT_EQ(ids(model, "abc"), (Ids{258}));
}

TEST(BytePairs, OfEqualMergesTheLastRankCounts) {
  const BytePairs model(vocabulary({"ab", "bc"}), {{"a", "b"}, {"b", "c"}, {"a", "b"}}, {});
  EXPECT_EQ(ids(model, "abc"), (Ids{'a', 257}));
}

TEST(BytePairs, AWordOfAMegabyte) {
  const BytePairs model(vocabulary({"aa", "aaaa"}), {{"a", "a"}, {"aa", "aa"}}, {});
  EXPECT_EQ(ids(model, std::string(1 << 20, 'a')).size(), 1u << 18);
}

/// Words longer than the cache takes, words of more pieces, and two models whose words are the same.
TEST(WordCache, GivesWhatTheModelGives) {
  const BytePairs first(vocabulary({"bc", "ab", "abc"}), {{"b", "c"}, {"a", "b"}, {"ab", "c"}}, {});
  const BytePairs second(vocabulary({"bc", "ab", "abc"}), {{"b", "c"}, {"a", "b"}, {"ab", "c"}},
                         {.whole_words = true});
  const WordCache of_first, of_second;
  for (int round = 0; round < 3; ++round) {
    for (const std::string& word : {std::string("abc"), std::string("abcabcabcabc"), std::string(33, 'a'),
                                    std::string(32, 'a'), std::string("ab")}) {
      for (const auto& [model, cache] : {std::pair(&first, &of_first), std::pair(&second, &of_second)}) {
        std::vector<Piece> wanted, found = {{7, 0, 1}};  // which stays
        model->split(word, &wanted);
        cache->split(*model, word, &found);
        ASSERT_EQ(found.size(), wanted.size() + 1);
        EXPECT_EQ(found[0].id, 7);
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_EQ(found[i + 1].id, wanted[i].id);
          EXPECT_EQ(found[i + 1].begin, wanted[i].begin);
          EXPECT_EQ(found[i + 1].end, wanted[i].end);
        }
      }
    }
  }
}

TEST(BytePairs, WhatIsNoTokenIsRefused) {
  EXPECT_THROW(BytePairs(vocabulary({}), {{"a", "b"}}, {}), Error);
  EXPECT_THROW(BytePairs(vocabulary({"ab"}), {{"a", "bc"}}, {}), Error);
  EXPECT_THROW(BytePairs({{"a", 0}}, {}, {.bytes = false, .byte_fallback = true}), Error);
}

Words split(const std::string& text) {
  Words out;
  byte_level::split(text, [&](size_t begin, size_t end) { out.push_back(text.substr(begin, end - begin)); });
  return out;
}

TEST(ByteLevel, SplitsAsTheGpt2Pattern) {
  EXPECT_EQ(split("I've 12 dogs!?"), (Words{"I", "'ve", " 12", " dogs", "!?"}));
  EXPECT_EQ(split("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split("a \n\tb  "), (Words{"a", " \n", "\t", "b", "  "}));
  EXPECT_EQ(split("'x ''s"), (Words{"'", "x", " ''", "s"}));
  EXPECT_EQ(split("é\u00a0世界²"), (Words{"é", "\u00a0", "世界", "²"}));
  EXPECT_EQ(split(" "), (Words{" "}));
  EXPECT_EQ(split(""), Words{});
}

TEST(ByteLevel, AlphabetIsReadBack) {
  EXPECT_EQ(byte_level::bytes_of("Ġa"), " a");
  EXPECT_EQ(byte_level::bytes_of("Ã©"), "é");
  EXPECT_EQ(byte_level::bytes_of("世"), std::nullopt);
}

json byte_level_json() {
  json vocab;
  for (uint32_t cp = 0, next = 0; cp < 256 + 68; ++cp) {
    std::string token;
    unicode::append_utf8(cp, &token);
    if (byte_level::bytes_of(token)) vocab[token] = next++;
  }
  for (const char* token : {"<s>", "</s>", "Ġa"}) vocab[token] = vocab.size();
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"Ġ a"}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}}},
          {"post_processor",
           {{"type", "RobertaProcessing"},
            {"cls", {"<s>", 256}},
            {"sep", {"</s>", 257}},
            {"trim_offsets", true}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

TEST(ByteLevel, RobertaTakesItsRulesFromTheConfiguration) {
  const std::string text = byte_level_json().dump();
  const auto alone = Tokenizer::from_files(std::vector<NamedFile>{{"tokenizer.json", text}}, "t");
  EXPECT_EQ(alone.encode("a").ids, (Ids{256, 258, 257}));
  EXPECT_EQ(alone.cls_id(), 256);
  const char* config = R"({"tokenizer_class": "RobertaTokenizer"})";
  const auto roberta = Tokenizer::from_files(
      std::vector<NamedFile>{{"tokenizer.json", text}, {"tokenizer_config.json", config}}, "t");
  EXPECT_EQ(roberta.encode("a").size(), 3u);
  EXPECT_NE(roberta.encode("a").ids[1], 258);
  EXPECT_EQ(roberta.encode_pair("a", " a").type_ids, (Ids{0, 0, 0, 0, 0, 0}));
}

TEST(ByteLevel, OffsetsOfAnAddedTokenLoseTheBlanksThatWereFoundOnly) {
  json j = byte_level_json();
  j["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  j["model"]["vocab"][" <x>"] = 259;
  j["added_tokens"] = {{{"id", 259}, {"content", " <x>"}, {"normalized", true}}};
  const auto t = Tokenizer::from_files(std::vector<NamedFile>{{"tokenizer.json", j.dump()}}, "t");
  const Encoding e = t.encode("a<x>", {.add_special_tokens = false});
  EXPECT_EQ(e.ids, (Ids{258, 259}));  // found as "<x>"
  EXPECT_EQ(e.offsets[1], (std::array<int32_t, 2>{1, 4}));
}

TEST(ByteLevel, WrittenFilesDescribeTheSameTokenizer) {
  const std::vector<NamedFile> files = {
      {"tokenizer.json", byte_level_json().dump()},
      {"tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})"}};
  const auto t = Tokenizer::from_files(files, "t");
  const auto again = Tokenizer::from_files(t.files(), "t");
  EXPECT_EQ(again.encode_pair("a b a", "  é'll"), t.encode_pair("a b a", "  é'll"));
}

TEST(ByteLevel, OtherComponentsAreNamedInTheError) {
  const auto message = [](const char* part, const json& value) -> std::string {
    json j = byte_level_json();
    j[part] = part == std::string("model") ? [&] {
      json model = j["model"];
      model.update(value);
      return model;
    }()
                                           : value;
    try {
      Tokenizer::from_files(std::vector<NamedFile>{{"tokenizer.json", j.dump()}}, "t");
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message("pre_tokenizer", {{"type", "UnicodeScripts"}}).find("'UnicodeScripts' is not supported"),
            std::string::npos);
  EXPECT_NE(message("decoder", {{"type", "BPEDecoder"}}).find("expected ByteLevel"), std::string::npos);
  EXPECT_NE(message("model", {{"merges", {"a"}}}).find("expected two tokens"), std::string::npos);
  EXPECT_NE(message("model", {{"merges", {"a b"}}}).find("result of a merge"), std::string::npos);
}

}  // namespace
}  // namespace lathe
