#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {
namespace {

using nlohmann::json;

const std::string kPlainVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\na\n##a\n";

Tokenizer load(const std::vector<NamedFile>& files) { return Tokenizer::from_files(files, "model"); }

Tokenizer load(const char* name, const json& content) {
  return load({{"vocab.txt", kPlainVocab}, {name, content.dump()}});
}

void expect_error(const std::vector<NamedFile>& files, const std::string& part,
                  ErrorCode code = ErrorCode::kInvalidData) {
  try {
    load(files);
    FAIL() << "loads; expected an error with " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

/// The first two read out of bounds.
TEST(TokenizerInput, SpecialTokensThatAreNoneAreRefusedByTheirKeys) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"})
    for (const char* key : {"cls_token", "sep_token", "pad_token", "unk_token", "mask_token"}) {
      const std::string wanted =
          std::string("model/") + file + ": " + key + ": expected a token that is not empty";
      expect_error({{"vocab.txt", kPlainVocab}, {file, json{{key, ""}}.dump()}}, wanted);
      expect_error({{"vocab.txt", kPlainVocab}, {file, json{{key, {{"content", ""}}}}.dump()}}, wanted);
      expect_error({{"vocab.txt", std::string("\n") + kPlainVocab}, {file, json{{key, ""}}.dump()}}, wanted);
      for (const json& none : {json(5), json(true), json::array({"[CLS]"}), json{{"text", "[CLS]"}}})
        expect_error({{"vocab.txt", kPlainVocab}, {file, json{{key, none}}.dump()}},
                     std::string(key) + ": expected a token, found ");
    }
  // What the fast tokenizers take.
  const json taken = {{"cls_token", nullptr},
                      {"bos_token", ""},
                      {"add_bos_token", true},
                      {"image_token", ""},
                      {"extra_special_tokens", {""}}};
  const Tokenizer t = load("tokenizer_config.json", taken);
  EXPECT_EQ(t.encode("hello").ids, load({{"vocab.txt", kPlainVocab}}).encode("hello").ids);
}

TEST(TokenizerInput, TemplatesNameTheTokensOfTheirIds) {
  const auto with = [](const json& processor) {
    json j = {{"post_processor", processor},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", "[UNK]"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}}}}}};
    return std::vector<NamedFile>{{"tokenizer.json", j.dump()}};
  };
  const auto bert = [](const char* cls, int id) {
    return json{
        {"type", "BertProcessing"}, {"cls", json::array({cls, id})}, {"sep", json::array({"[SEP]", 2})}};
  };
  EXPECT_EQ(load(with(bert("[CLS]", 1))).encode("").ids.size(), 2u);
  EXPECT_EQ(load(with(bert("[NAME OF MINE]", 1))).encode("").ids.size(), 2u);
  expect_error(with(bert("", 1)), "'' has the id 1, expected a name that is not empty");
  expect_error(with(bert("[CLS]", 2)), "'[CLS]' has the id 2, in the vocabulary 1: expected the same");
  const auto some = [](const json& ids, const json& tokens) {
    const json first = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
               second = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
    const json start = {{"SpecialToken", {{"id", "start"}, {"type_id", 0}}}};
    return json{{"type", "TemplateProcessing"},
                {"single", json::array({start, first})},
                {"pair", json::array({start, first, second})},
                {"special_tokens", {{"start", {{"id", "start"}, {"ids", ids}, {"tokens", tokens}}}}}};
  };
  EXPECT_EQ(load(with(some({1, 2}, {"[CLS]", "[SEP]"}))).encode("").ids.size(), 2u);
  expect_error(with(some({1, 2}, {"[SEP]", "[CLS]"})), "'[SEP]' has the id 1, in the vocabulary 2");
  expect_error(with(some({1, 2}, json::array({"[CLS]"}))), "tokens: expected as many names as ids");
  expect_error(with(some({1, 2}, json::array({"[CLS]", ""}))), "expected a name that is not empty");
}

TEST(TokenizerInput, DeepNestingIsRefusedInEveryFile) {
  const std::string deep = "{\"a\":" + std::string(48000, '[') + std::string(48000, ']') + "}";
  for (const char* file :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"})
    expect_error({{"vocab.txt", kPlainVocab}, {file, deep}},
                 std::string("model/") + file + ":1:205: found lists or objects nested deeper than 200");
}

TEST(TokenizerInput, ATokenIsNotLongerThanAKilobyte) {
  const std::string longest(1024, 'a'), longer = longest + "a";
  const auto with = [](const std::string& token) {
    return std::vector<NamedFile>{{"vocab.txt", kPlainVocab + token + "\n"}};
  };
  EXPECT_EQ(load(with(longest)).token_to_id(longest).has_value(), true);
  expect_error(with(longer), "has 1025 bytes, expected at most 1024");
  expect_error({{"vocab.txt", kPlainVocab}, {"added_tokens.json", json{{longer, 40}}.dump()}}, "1025 bytes");
  json j = {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", {{"[UNK]", 0}}}}}};
  j["model"]["vocab"][longer] = 40;
  expect_error({{"tokenizer.json", j.dump()}}, "token 40 has 1025 bytes");
}

/// Each of these was quadratic.
TEST(TokenizerInput, ManyTokensAndLongRunsTakeLinearTime) {
  json decoder = json::object(), extra = json::array(), added = json::object();
  for (int i = 0; i < 60000; ++i) {
    decoder[std::to_string(100 + i)] = {{"content", fmt::format("<d{}>", i)}, {"special", true}};
    extra.push_back(fmt::format("<e{}>", i));
    added[fmt::format("<a{}>", i)] = 70000 + i;
  }
  const json config = {{"added_tokens_decoder", decoder}, {"extra_special_tokens", extra}};
  EXPECT_GT(load("tokenizer_config.json", config).vocab_size(), 120000);
  EXPECT_GT(load("added_tokens.json", added).vocab_size(), 60000);
  for (const char* side : {"lstrip", "rstrip"}) {
    const json space = {{"extra_special_tokens", {{{"content", " "}, {side, true}}}}};
    EXPECT_GT(load("tokenizer_config.json", space).encode(std::string(200000, ' ')).ids.size(), 100000u);
  }
}

TEST(TokenizerInput, NormalizersAreFewAndShort) {
  const auto with = [](const json& normalizer) {
    json j = {{"normalizer", normalizer},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"model",
               {{"type", "WordPiece"},
                {"unk_token", "[UNK]"},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", {{"[UNK]", 0}}}}}};
    return std::vector<NamedFile>{{"tokenizer.json", j.dump()}};
  };
  const auto replace = [](size_t pattern, size_t content) {
    return json{{"type", "Replace"},
                {"pattern", {{"String", std::string(pattern, 'a')}}},
                {"content", std::string(content, 'b')}};
  };
  const auto sequence = [&](size_t steps) {
    return json{{"type", "Sequence"}, {"normalizers", std::vector<json>(steps, replace(1, 1))}};
  };
  load(with(replace(1024, 1024)));
  load(with(sequence(32)));
  expect_error(with(replace(1025, 1)), "Replace of 1025 bytes by 1", ErrorCode::kUnsupported);
  expect_error(with(replace(1, 200000)), "Replace of 1 bytes by 200000", ErrorCode::kUnsupported);
  expect_error(with(sequence(33)), "more than 32 steps", ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace lathe
