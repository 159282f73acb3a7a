#include "lathe/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <climits>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lathe/core/error.h"
#include "lathe/core/test_folder.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

using nlohmann::json;

const std::string kVocabTxt =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##s\nworld\n!\na\n##a\ne\n##b\n\xef\xbf\xbd\n";

Tokenizer from_vocab(const std::string& config = "{}") {
  const std::vector<NamedFile> files = {{"vocab.txt", kVocabTxt}, {"tokenizer_config.json", config}};
  return Tokenizer::from_files(files, "model");
}

json small_json() {
  return json::parse(R"({"version": "1.0", "added_tokens": [{"id": 1, "content": "[SEP]", "special": true,
    "normalized": false, "single_word": false, "lstrip": false, "rstrip": false}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
    "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 1]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[SEP]": 1, "[CLS]": 2, "a": 3, "##a": 4}}})");
}

Tokenizer from_json(const json& content) {
  const std::vector<NamedFile> files = {{"tokenizer.json", content.dump()}};
  return Tokenizer::from_files(files, "model");
}

/// Code and message of the Error that loading gives; the code is kInternal and the message empty if it
/// succeeds.
std::pair<ErrorCode, std::string> load_error(const std::vector<NamedFile>& files) {
  try {
    Tokenizer::from_files(files, "model");
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {ErrorCode::kInternal, ""};
}

void expect_error(const std::vector<NamedFile>& files, ErrorCode code, const std::string& part) {
  const auto [found, message] = load_error(files);
  EXPECT_EQ(found, code) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

using Ids = std::vector<int32_t>;

TEST(Tokenizer, VocabTxtAloneIsUncasedBert) {
  const Tokenizer t = from_vocab();
  const Encoding e = t.encode("Héllos [MASK]world!");
  EXPECT_EQ(e.ids, (Ids{2, 5, 6, 4, 7, 8, 3}));
  EXPECT_EQ(e.word_ids, (Ids{-1, 0, 0, 1, 2, 3, -1}));
  EXPECT_EQ(e.offsets[1], (std::array<int32_t, 2>{0, 5}));
  EXPECT_EQ(e.offsets[4], (std::array<int32_t, 2>{13, 18}));
  EXPECT_EQ(t.decode(e.ids), "hellos world!");
}

TEST(Tokenizer, PairGetsTypeIds) {
  const Encoding e = from_vocab().encode_pair("hello", "world");
  EXPECT_EQ(e.ids, (Ids{2, 5, 3, 7, 3}));
  EXPECT_EQ(e.type_ids, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(e.sequence_ids, (std::vector<int8_t>{-1, 0, -1, 1, -1}));
}

TEST(Tokenizer, ConfigSetsCaseNamesAndLength) {
  const Tokenizer t = from_vocab(R"({"do_lower_case": false, "model_max_length": 77, "mask_token":
    {"__type": "AddedToken", "content": "hello"}, "additional_special_tokens": ["<x>"]})");
  EXPECT_EQ(t.encode("World world").ids, (Ids{2, 1, 7, 3}));
  EXPECT_EQ(t.model_max_length(), 77);
  EXPECT_EQ(t.mask_id(), 5);
  EXPECT_EQ(t.vocab_size(), 15);
  EXPECT_EQ(t.token_to_id("<x>"), 14);
  EXPECT_EQ(t.encode("a<x>a").ids, (Ids{2, 9, 14, 9, 3}));
  EXPECT_EQ(from_vocab(R"({"model_max_length": 1000000000000000019884624838656})").model_max_length(),
            INT_MAX);
}

TEST(Tokenizer, FilesKeepWhatWasLoadedAndDescribeTheSame) {
  const Tokenizer t = from_vocab(R"({"do_lower_case":false})");
  const auto files = t.files();
  std::vector<NamedFile> generated;
  for (const NamedFile& f : files) {
    if (f.first == "vocab.txt") {
      EXPECT_EQ(f.second, kVocabTxt);
    } else if (f.first == "tokenizer_config.json") {
      EXPECT_EQ(f.second, R"({"do_lower_case":false})");
    } else {
      generated.push_back(f);
    }
  }
  ASSERT_EQ(generated.size(), 2u);
  const Tokenizer again = Tokenizer::from_files(generated, "again");
  const std::string text = "Hello hellos [SEP] é世a";
  EXPECT_EQ(again.encode(text), t.encode(text));
  for (const NamedFile& f : from_json(small_json()).files()) {
    if (f.first == "vocab.txt") {
      EXPECT_EQ(f.second, "[UNK]\n[SEP]\n[CLS]\na\n##a\n");
    }
  }
}

TEST(Tokenizer, AVocabTxtOfManyTokensIsWrittenWithAllOfThem) {
  std::string vocab = kVocabTxt;
  for (int i = 0; i < 5000; ++i) vocab += "token" + std::to_string(i) + "\n";
  const std::vector<NamedFile> files = {{"vocab.txt", vocab}};
  const Tokenizer t = Tokenizer::from_files(files, "model");
  for (const NamedFile& f : t.files()) {
    if (f.first != "tokenizer.json") continue;
    const auto written = nlohmann::ordered_json::parse(f.second);
    int32_t id = 0;
    for (const auto& [token, value] : written["model"]["vocab"].items()) {
      EXPECT_EQ(value, id);
      EXPECT_EQ(t.id_to_token(id++), token);
    }
    EXPECT_EQ(id, 5014);
  }
}

TEST(Tokenizer, AWrittenConfigurationKeepsTheTypes) {
  const auto config = [](const Tokenizer& tokenizer) {
    for (const NamedFile& f : tokenizer.files()) {
      if (f.first == "tokenizer_config.json") return json::parse(f.second);
    }
    return json();
  };
  const json other =
      config(from_json(small_json()));  // without [PAD] and [MASK] not transformers' BERT class
  EXPECT_EQ(other["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(other["model_input_names"], json({"input_ids", "token_type_ids", "attention_mask"}));
  const std::vector<NamedFile> vocab = {{"vocab.txt", kVocabTxt}};
  EXPECT_FALSE(config(Tokenizer::from_files(vocab, "model")).contains("model_input_names"));
}

/// transformers' BERT class takes them only from tokenizer_config.json.
TEST(Tokenizer, AWrittenConfigurationKeepsTheRules) {
  const std::string text = "Hello héllos \xe4\xb8\x96 world";
  for (const auto& [lower, strip, chinese] : {std::tuple{json(true), json(nullptr), json(true)},
                                              {json(false), json(nullptr), json(false)},
                                              {json(false), json(true), json(true)},
                                              {json(true), json(false), json(true)}}) {
    const json given = {
        {"do_lower_case", lower}, {"strip_accents", strip}, {"tokenize_chinese_chars", chinese}};
    const Tokenizer first = from_vocab(given.dump());
    std::vector<NamedFile> files;
    for (const NamedFile& f : first.files())
      if (f.first == "tokenizer.json") files.push_back(f);
    ASSERT_EQ(files.size(), 1u);
    files = Tokenizer::from_files(files, "model").files();
    json written;
    for (const NamedFile& f : files)
      if (f.first == "tokenizer_config.json") written = json::parse(f.second);
    EXPECT_EQ(written["tokenizer_class"], "BertTokenizer");
    for (const auto& [key, value] : given.items()) EXPECT_EQ(written[key], value) << key << given;
    EXPECT_EQ(Tokenizer::from_files(files, "model").encode(text), first.encode(text)) << given;
  }
}

TEST(Tokenizer, TruncatesOnTheLeftWhereTheFilesSaySo) {
  const Tokenizer t = from_vocab(R"({"truncation_side": "left"})");
  EXPECT_EQ(t.encode("hello world a", {.max_length = 4}).ids, (Ids{2, 7, 9, 3}));
  EXPECT_EQ(t.encode_pair("hello world a", "e", {.max_length = 6}).ids, (Ids{2, 7, 9, 3, 11, 3}));
  const auto windows = t.encode_with_overflow("hello world a e !", {.max_length = 5, .stride = 1});
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].ids, (Ids{2, 9, 11, 8, 3}));
  EXPECT_EQ(windows[1].ids, (Ids{2, 5, 7, 9, 3}));
  EXPECT_EQ(windows[0].offsets[1], (std::array<int32_t, 2>{12, 13}));

  json j = small_json();
  j["truncation"] = {{"direction", "Left"}, {"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
  EXPECT_EQ(from_json(j).encode("aa a", {.max_length = 4}).ids, (Ids{2, 4, 3, 1}));
  const std::vector<NamedFile> files = {{"tokenizer.json", j.dump()},
                                        {"tokenizer_config.json", R"({"truncation_side": "right"})"}};
  EXPECT_EQ(Tokenizer::from_files(files, "model").encode("aa a", {.max_length = 4}).ids, (Ids{2, 3, 4, 1}));
  expect_error({{"vocab.txt", kVocabTxt}, {"tokenizer_config.json", R"({"truncation_side": "up"})"}},
               ErrorCode::kInvalidData, "truncation_side: expected left or right, found \"up\"");
  EXPECT_FALSE(t.pads_left());
  EXPECT_FALSE(from_vocab(R"({"padding_side": "right"})").pads_left());
  EXPECT_TRUE(from_vocab(R"({"padding_side": "left"})").pads_left());
}

TEST(Tokenizer, SpecialTokensInATextAreSplitWhereTheFilesSaySo) {
  const Tokenizer t = from_vocab(R"({"split_special_tokens": true, "do_lower_case": false,
    "added_tokens_decoder": {"14": {"content": "<x>"}}})");
  EXPECT_EQ(t.encode("a[SEP]<x>").ids, (Ids{2, 9, 1, 1, 1, 14, 3}));  // "[", "SEP" and "]" are unknown
}

TEST(Tokenizer, InvalidUtf8IsReadAsReplacementCharacters) {
  EXPECT_EQ(unicode::repair("a\xff\xe4\xb8z\xed\xa0\x80"), "a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD");
  EXPECT_TRUE(unicode::is_valid("a\u00e9\u4e16\U0001F600 \uFFFF"));
  for (const auto& [text, bad] : {std::pair("ab\xff", 2u), std::pair("\xc3", 0u),             // cut short
                                  std::pair("a\xc0\x80", 1u), std::pair("\xe0\x9f\xbf", 0u),  // overlong
                                  std::pair("\xed\xa0\x80", 0u),                              // a surrogate
                                  std::pair("\xf4\x90\x80\x80", 0u),  // beyond U+10FFFF
                                  std::pair("abcdefgh\x80", 8u), std::pair("x\xf0\x9f\x98", 1u)}) {
    EXPECT_EQ(unicode::find_invalid(text), bad);
    EXPECT_FALSE(unicode::is_valid(text));
  }
  const Encoding e = from_vocab().encode("a\xff!");  // clean_text drops U+FFFD; the offsets count it
  EXPECT_EQ(e.ids, (Ids{2, 9, 8, 3}));
  EXPECT_EQ(e.offsets[2], (std::array<int32_t, 2>{2, 3}));
}

TEST(Tokenizer, EmptyTextGivesOnlySpecialTokens) {
  const Tokenizer t = from_vocab();
  EXPECT_EQ(t.encode("").ids, (Ids{2, 3}));
  EXPECT_EQ(t.encode(" \t\u200b").ids, (Ids{2, 3}));
  EXPECT_EQ(t.encode_pair("", "").ids, (Ids{2, 3, 3}));
  EXPECT_EQ(t.encode("", {.add_special_tokens = false}).size(), 0u);
  EXPECT_EQ(t.num_special_tokens(false), 2);
  EXPECT_EQ(t.num_special_tokens(true), 3);
}

/// A megabyte of these takes quadratic code minutes, linear code milliseconds: of the processor's time, which
/// other programs do not lengthen.
TEST(Tokenizer, MegabytesTakeLinearTime) {
  const Tokenizer t = from_vocab();
  const std::clock_t begin = std::clock();
  const size_t n = 1 << 20;
  EXPECT_EQ(t.encode(std::string(n, 'a')).ids, (Ids{2, 1, 3}));
  std::string spaced, marks = "e", literals;
  for (size_t i = 0; i < n / 2; ++i) {
    spaced += "a ";
    marks += i % 2 == 0 ? "\u0323" : "\u0301";
    literals += i % 4 == 0 ? "[SEP" : "]";
  }
  EXPECT_EQ(t.encode(spaced).size(), n / 2 + 2);
  EXPECT_EQ(t.encode(marks).ids, (Ids{2, 11, 3}));
  EXPECT_GT(t.encode(literals).size(), n / 8);
  EXPECT_EQ(t.encode_with_overflow(spaced, {.max_length = 512, .stride = 128}).size(),
            (n / 2 - 510 + 381) / 382 + 1);
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

TEST(Tokenizer, TruncationThatCannotBeIsRefused) {
  const Tokenizer t = from_vocab();
  const auto refused = [&](std::string_view a, const char* b, EncodeOptions options) {
    try {
      b != nullptr ? t.encode_pair(a, b, options) : t.encode(a, options);
    } catch (const Error& e) {
      return e.code() == ErrorCode::kUsage;
    }
    return false;
  };
  EXPECT_TRUE(refused("hello world", "a", {5, Truncation::kOnlySecond}));
  EXPECT_FALSE(refused("hello", "a world", {5, Truncation::kOnlySecond}));
  EXPECT_TRUE(refused("hello world a", nullptr, {4, Truncation::kOnlySecond}));
  EXPECT_TRUE(refused("a", nullptr, {1}));
  EXPECT_FALSE(refused("a a", nullptr, {1, Truncation::kLongestFirst, 0, false}));
  EXPECT_TRUE(refused("a a", nullptr, {1, Truncation::kLongestFirst, 2, false}));
  EXPECT_TRUE(refused("a a a a a a", nullptr, {6, Truncation::kLongestFirst, 5}));
  EXPECT_TRUE(refused("a a a a a a", nullptr, {6, Truncation::kLongestFirst, 4}));
  EXPECT_FALSE(refused("a a a a a a", nullptr, {6, Truncation::kLongestFirst, 3}));
  EXPECT_TRUE(refused("a", nullptr, {-1}));
}

/// What the tokenizers library 0.22 gives for the same file.
TEST(Tokenizer, AddedTokensOfWhiteSpaceAreFoundInWhatTheTokenBeforeTook) {
  const auto added = [](int id, const char* content, bool lstrip, bool rstrip) {
    return json{{"id", id},         {"content", content}, {"special", false},    {"normalized", false},
                {"lstrip", lstrip}, {"rstrip", rstrip},   {"single_word", false}};
  };
  using Offsets = std::vector<std::array<int32_t, 2>>;
  const auto expect = [&](const json& space, const char* text, const Ids& ids, const Offsets& offsets) {
    json j = small_json();
    j["added_tokens"] = {added(5, "<r>", false, true), space};
    const Encoding e = from_json(j).encode(text, {.add_special_tokens = false});
    EXPECT_EQ(e.ids, ids) << space << text;
    EXPECT_EQ(e.offsets, offsets) << space << text;
  };
  const json one = added(6, " ", false, false), two = added(6, "  ", false, false);
  expect(one, "<r> a", {5, 6, 3}, {{0, 4}, {3, 4}, {4, 5}});
  expect(one, "a <r>  ", {3, 6, 5, 6, 6}, {{0, 1}, {1, 2}, {2, 7}, {5, 6}, {6, 7}});
  expect(two, "<r> a", {5, 3}, {{0, 4}, {4, 5}});
  expect(two, "<r>   a", {5, 6, 3}, {{0, 6}, {3, 5}, {6, 7}});
  expect(added(6, " ", false, true), "<r>  a", {5, 6, 6, 3}, {{0, 5}, {3, 5}, {4, 5}, {5, 6}});
  expect(added(6, " ", true, false), "<r> a", {5, 3}, {{0, 4}, {4, 5}});
}

TEST(Tokenizer, OfManyAddedTokensTheLongestIsFoundAndOfEqualOnesTheFirst) {
  const auto added = [](int id, const std::string& content, bool normalized) {
    return json{{"id", id},        {"content", content}, {"special", false},    {"normalized", normalized},
                {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
  };
  json j = small_json();
  j["added_tokens"] = json::array();
  std::string text;
  Ids wanted;
  for (int i = 0; i < 2000; ++i) {
    const std::string content = "<" + std::to_string(i);  // also where longer ones begin
    j["added_tokens"].push_back(added(5 + i, content, false));
    text += content + "a";
    wanted.insert(wanted.end(), {5 + i, 3});
  }
  EXPECT_EQ(from_json(j).encode(text, {.add_special_tokens = false}).ids, wanted);
  // Alike once they are in lower case.
  j["added_tokens"] = {added(5, "xY", true), added(6, "Xy", true), added(7, "xyz", true),
                       added(8, "xyzzz", true)};
  EXPECT_EQ(from_json(j).encode("xyxyzxYZZ.", {.add_special_tokens = false}).ids, (Ids{5, 7, 7, 0, 0}));
}

TEST(Tokenizer, AFileThatIsThereButCannotBeReadIsNotAbsent) {
  const auto error = [](const std::string& name, const std::function<void(const std::string&)>& put) {
    const TestFolder folder;
    std::ofstream(folder / "vocab.txt") << kVocabTxt;
    put(folder / name);
    try {
      Tokenizer::load(folder.path());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("none", [](const std::string&) {}), "");
  for (const std::string name : {"tokenizer.json", "tokenizer_config.json", "added_tokens.json"}) {
    const auto dangling =
        error(name, [](const std::string& path) { std::filesystem::create_symlink("nowhere", path); });
    EXPECT_NE(dangling.find(name), std::string::npos) << dangling;
    const auto folder = error(name, [](const std::string& path) { std::filesystem::create_directory(path); });
    EXPECT_NE(folder.find(name + ": cannot read: Is a directory"), std::string::npos) << folder;
    const auto pointer = error(name, [](const std::string& path) {
      std::ofstream(path) << "version https://git-lfs.github.com/spec/v1\n";
    });
    EXPECT_NE(pointer.find(name + ": found a Git LFS pointer"), std::string::npos) << pointer;
  }
}

TEST(Tokenizer, WithoutPostProcessorThereAreNoSpecialTokens) {
  json j = small_json();
  j["post_processor"] = nullptr;
  const Encoding e = from_json(j).encode_pair("a", "aa");
  EXPECT_EQ(e.ids, (Ids{3, 3, 4}));
  EXPECT_EQ(e.type_ids, (Ids{0, 1, 1}));
  EXPECT_EQ(e.sequence_ids, (std::vector<int8_t>{0, 1, 1}));
}

TEST(Tokenizer, OtherComponentsAreNamedInTheError) {
  const auto with = [](const char* part, const json& value) {
    json j = small_json();
    j[part] = value;
    return std::vector<NamedFile>{{"tokenizer.json", j.dump()}};
  };
  const auto no = ErrorCode::kUnsupported;
  expect_error(with("normalizer", {{"type", "ByteLevel"}}), no, "'ByteLevel'");
  expect_error(with("normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "ByteLevel"}}}}}), no,
               "'ByteLevel'");
  expect_error(with("pre_tokenizer", {{"type", "ByteLevel"}}), no, "'ByteLevel'");
  expect_error(with("pre_tokenizer", nullptr), no, "'null'");
  expect_error(with("post_processor", {{"type", "RobertaProcessing"}}), no, "'RobertaProcessing'");
  expect_error(with("decoder", {{"type", "BPEDecoder"}}), no, "'BPEDecoder'");
  expect_error(with("model", {{"type", "WordLevel"}, {"vocab", json::object()}}), no, "model 'WordLevel'");
  expect_error(with("version", "2.0"), no, "2.0");
}

TEST(Tokenizer, MalformedFilesAreNamedInTheError) {
  const auto bad = ErrorCode::kInvalidData;
  expect_error({{"tokenizer.json", "{\"model\": "}}, bad, "model/tokenizer.json:1:11: not valid JSON");
  expect_error({{"tokenizer.json", "[]"}}, bad, "expected an object");
  expect_error({{"tokenizer.json", "{}"}}, bad, "'model' is missing");
  json j = small_json();
  j["model"]["vocab"].erase("[UNK]");
  expect_error({{"tokenizer.json", j.dump()}}, bad, "'[UNK]' is not in the vocabulary");
  j["model"]["vocab"]["[UNK]"] = -1;
  expect_error({{"tokenizer.json", j.dump()}}, bad, "found -1");
  j = small_json();
  j["post_processor"]["sep"][1] = 77;
  expect_error({{"tokenizer.json", j.dump()}}, bad, "'[SEP]' has the id 77");
  expect_error({{"vocab.txt", "[UNK]\n\xff\n"}}, bad, "vocab.txt:2: not valid UTF-8");
  expect_error({{"vocab.txt", ""}}, bad, "an empty file");
  expect_error({{"vocab.txt", kVocabTxt}, {"tokenizer_config.json", R"({"do_lower_case": 1})"}}, bad,
               "do_lower_case");
  expect_error({{"tokenizer_config.json", "{}"}}, ErrorCode::kNotFound, "tokenizer.json or vocab.txt");
}

TEST(Tokenizer, UnknownIdIsRefusedAndLeftOutOfText) {
  const Tokenizer t = from_vocab();
  EXPECT_EQ(t.id_to_token(5), "hello");
  EXPECT_THROW(t.id_to_token(99), Error);
  EXPECT_EQ(t.decode(Ids{5, 99, -1, 7}), "hello world");
}

}  // namespace
}  // namespace lathe
