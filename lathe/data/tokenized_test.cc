#include "lathe/data/tokenized.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Ints = std::vector<int32_t>;

// ids: [CLS] 2, [SEP] 3, a 5, b 6, c 7
Tokenizer toy_tokenizer(const std::string& config = "{}") {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n"},
                                     {"tokenizer_config.json", config}};
  return Tokenizer::from_files(files, "test");
}

TextDataset toy_pairs() {
  TextDataset d;
  d.origin = "toy";
  d.first = {"a b c", "a", "", "c c"};
  d.second = {"c", "b b b b", "a", "B"};
  d.label_set.names = {"x", "y"};
  d.labels = {0, 1, 1, -1};
  d.labelled = true;
  return d;
}

TEST(TokenizeDataset, PutsSamplesSideBySide) {
  ThreadPool pool(1);
  const TokenizedDataset t = tokenize_dataset(toy_pairs(), toy_tokenizer(), 6, pool);
  ASSERT_EQ(t.size(), 4);
  EXPECT_EQ(t.lengths(), (Ints{6, 6, 4, 6}));
  EXPECT_EQ(t.longest(), 6);
  EXPECT_EQ(TokenizedDataset().longest(), 0);
  EXPECT_EQ(Ints(t.ids(0).begin(), t.ids(0).end()), (Ints{2, 5, 6, 3, 7, 3}));  // the longer text gave way
  EXPECT_EQ(Ints(t.ids(2).begin(), t.ids(2).end()), (Ints{2, 3, 5, 3}));
  EXPECT_EQ(std::vector<uint8_t>(t.type_ids.begin(), t.type_ids.begin() + 6),
            (std::vector<uint8_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(t.tensors.ints("labels"), (Ints{0, 1, 1, -1}));
}

TEST(TokenizeDataset, TypesAreThoseThatTransformersPasses) {
  ThreadPool pool(1);
  const auto has_types = [&](const std::string& config) {
    const TokenizedDataset t = tokenize_dataset(toy_pairs(), toy_tokenizer(config), 6, pool);
    EXPECT_EQ(t.type_ids.size(), t.input_ids.size());
    return std::ranges::count(t.type_ids, 1) > 0;
  };
  for (const char* name : {"BertTokenizer", "ElectraTokenizerFast"})
    EXPECT_TRUE(has_types(fmt::format(R"({{"tokenizer_class": "{}"}})", name))) << name;
  for (const char* name : {"TokenizersBackend", "PreTrainedTokenizerFast", "DistilBertTokenizer"})
    EXPECT_FALSE(has_types(fmt::format(R"({{"tokenizer_class": "{}"}})", name))) << name;
  EXPECT_FALSE(has_types(R"({"model_input_names": ["input_ids", "attention_mask"]})"));
  EXPECT_TRUE(has_types(R"({"tokenizer_class": "TokenizersBackend",
                            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]})"));
}

/// Of 256 a byte keeps 0.
TEST(TokenizeDataset, ATypeBeyondAByteIsRefused) {
  const std::string file =
      R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1}}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "special_tokens": {}, "single": [{"Sequence": {"id": "A", "type_id": TYPE}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}})";
  TextDataset d;
  d.first = {"a"};
  ThreadPool pool(1);
  const auto types = [&](const std::string& type, const std::string& config) {
    std::string content = file;
    content.replace(content.find("TYPE"), 4, type);
    const std::vector<NamedFile> files{{"tokenizer.json", content}, {"tokenizer_config.json", config}};
    return tokenize_dataset(d, Tokenizer::from_files(files, "test"), 6, pool).type_ids;
  };
  EXPECT_EQ(types("255", "{}"), (std::vector<uint8_t>{255}));
  for (const char* type : {"256", "65536", "16777215"})
    EXPECT_NE(message_of(ErrorCode::kInvalidData, [&] { types(type, "{}"); })
                  .find(fmt::format("found the token type {}, expected 0 to 255", type)),
              std::string::npos);
  EXPECT_EQ(types("256", R"({"model_input_names": ["input_ids"]})"), (std::vector<uint8_t>{0}));
}

TEST(TokenizeDataset, DoesNotDependOnTheThreads) {
  ThreadPool one(1), three(3);
  const TokenizedDataset a = tokenize_dataset(toy_pairs(), toy_tokenizer(), 6, one);
  const TokenizedDataset b = tokenize_dataset(toy_pairs(), toy_tokenizer(), 6, three);
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(a.type_ids, b.type_ids);
  EXPECT_EQ(a.begins, b.begins);
}

TEST(TokenizeDataset, SingleTextsAndSeveralTargets) {
  TextDataset d;
  d.first = {"a b c a b c", "c"};
  d.label_set = {.kind = LabelKind::kMultiLabel, .names = {"x", "y", "z"}};
  d.targets = {1, 0, 1, 0, 0, 0};
  d.labelled = true;
  ThreadPool pool(2);
  const TokenizedDataset t = tokenize_dataset(d, toy_tokenizer(), 4, pool);
  EXPECT_EQ(t.input_ids, (Ints{2, 5, 6, 3, 2, 7, 3}));
  ASSERT_NE(t.tensors.find("labels"), nullptr);
  EXPECT_EQ(t.tensors.find("labels")->width, 3);
  EXPECT_EQ(t.tensors.floats("labels"), d.targets);
}

TEST(TokenizeDataset, OfAFileWithoutLabelsThereAreNone) {
  TextDataset d = toy_pairs();
  d.labels.assign(d.size(), -1);
  d.labelled = false;
  ThreadPool pool(1);
  EXPECT_EQ(tokenize_dataset(d, toy_tokenizer(), 6, pool).tensors.find("labels"), nullptr);
}

TEST(TokenizeDataset, WantsASecondTextForEachFirst) {
  ThreadPool pool(1);
  TextDataset d = toy_pairs();
  for (const size_t count : {size_t{1}, size_t{5}}) {
    d.second.resize(count);
    EXPECT_EQ(message_of(ErrorCode::kUsage, [&] { tokenize_dataset(d, toy_tokenizer(), 6, pool); }),
              "toy: found " + std::to_string(count) + " second texts, expected 4 as there are first ones");
  }
}

TEST(TokenizeDataset, AFaultOnAThreadReachesTheCaller) {
  ThreadPool pool(2);
  message_of(ErrorCode::kUsage, [&] { tokenize_dataset(toy_pairs(), toy_tokenizer(), 1, pool); });
}

}  // namespace
}  // namespace lathe
