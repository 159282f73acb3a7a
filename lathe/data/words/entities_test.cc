// Compares with stored results of transformers' token-classification pipeline; tools/make_entity_goldens.py
// writes them.
#include "lathe/data/words/entities.h"

#include <gtest/gtest.h>

#include <map>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/tokenizers/golden_tokenizers_testing.h"
#include "lathe/tokenizers/words_input.h"

namespace lathe {
namespace {

using nlohmann::json;

// The pipeline pads windows to the longest one.
std::vector<float> scores_of(const json& sixteenths, size_t tokens, size_t columns) {
  std::vector<float> logits;
  for (const json& value : sixteenths) logits.push_back(value.get<float>() / 16);
  EXPECT_GE(logits.size(), tokens * columns);
  logits.resize(tokens * columns);
  return softmax_rows(logits, columns);
}

void expect_answers(const std::vector<FoundEntity>& found, const json& wanted, const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (size_t i = 0; i < found.size(); ++i) {
    const FoundEntity& e = found[i];
    const json& w = wanted[i];
    EXPECT_EQ(json({e.entity, e.word, e.start, e.end, e.index}), json({w[0], w[2], w[3], w[4], w[5]}))
        << where << i;
    EXPECT_NEAR(e.score, w[1].get<double>(), 1e-6) << where << i;
  }
}

void check_case(const Tokenizer& t, const json& c, const Values& labels, int max_length,
                const std::string& where) {
  const bool words = c["input"].is_array();
  EncodeOptions options;
  if (!c["stride"].is_null()) options = {.max_length = max_length, .stride = c["stride"]};
  std::string text = words ? "" : c["input"].get<std::string>();
  std::vector<Encoding> windows;
  if (words) {
    windows = encode_words_with_overflow(t, c["input"].get<Values>(), options);
    text = text_of_words(c["input"].get<Values>(), windows);
  } else {
    windows = t.encode_with_overflow(text, options);
  }
  ASSERT_EQ(windows.size(), c["logits"].size()) << where;
  for (const auto& [name, wanted] : c["answers"].items()) {
    std::vector<FoundEntity> found;
    for (size_t w = 0; w < windows.size(); ++w) {
      const auto scores = scores_of(c["logits"][w], windows[w].size(), labels.size());
      for (FoundEntity& e : find_entities(t, text, windows[w], scores, labels, *aggregation_named(name)))
        found.push_back(std::move(e));
    }
    if (windows.size() > 1) found = without_overlaps(std::move(found));
    expect_answers(found, wanted, where + name + " ");
  }
}

TEST(Entities, EqualsThePipeline) {
  const json all = golden("entities.json");
  const Values labels = all["labels"];
  int skipped = 0;
  for (const json& row : all["tokenizers"]) {
    std::vector<NamedFile> files = tokenizer_goldens::tokenizer_files(row["tokenizer"]);
    if (files.empty()) {
      ++skipped;
      continue;
    }
    if (files.size() == 1)
      files.emplace_back(
          "tokenizer_config.json",
          json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"unk_token", row["unk_token"]}}.dump());
    const Tokenizer t = Tokenizer::from_files(files, row["tokenizer"]);
    for (size_t i = 0; i < row["cases"].size(); ++i)
      check_case(t, row["cases"][i], labels, all["max_length"],
                 fmt::format("{} case {} ", row["tokenizer"].get<std::string>(), i));
  }
  if (skipped > 0) GTEST_SKIP() << skipped << " tokenizers need data";
}

Tokenizer tiny_words() {
  const std::vector<NamedFile> files{{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n"}};
  return Tokenizer::from_files(files, "small");
}

const Values kThree = {"O", "B-X", "I-X"};

std::vector<float> one_hot(const std::vector<size_t>& best) {
  std::vector<float> out(best.size() * kThree.size());
  for (size_t i = 0; i < best.size(); ++i) out[i * kThree.size() + best[i]] = 1;
  return out;
}

std::string told(const std::vector<FoundEntity>& entities) {
  std::string out;
  for (const FoundEntity& e : entities)
    out += fmt::format("{} '{}' {}-{};", e.entity, e.word, e.start, e.end);
  return out;
}

TEST(Entities, AnUnknownWordKeepsItsText) {
  const Encoding e = tiny_words().encode("zy aa b");  // [CLS] [UNK] a ##a b [SEP]
  const auto scores = one_hot({0, 1, 2, 0, 1, 1});
  EXPECT_EQ(told(find_entities(tiny_words(), "zy aa b", e, scores, kThree, Aggregation::kSimple)),
            "X 'zy a' 0-4;X 'b' 6-7;");
  EXPECT_EQ(told(find_entities(tiny_words(), "zy aa b", e, scores, kThree, Aggregation::kFirst)),
            "X 'zy aa' 0-5;X 'b' 6-7;");
  const auto tokens = find_entities(tiny_words(), "zy aa b", e, scores, kThree, Aggregation::kNone);
  EXPECT_EQ(told(tokens), "B-X 'zy' 0-2;I-X 'a' 3-4;B-X 'b' 6-7;");
  EXPECT_EQ(tokens[2].index, 4);
}

TEST(Entities, IgnoredOnesAreTheCallersChoice) {
  const Encoding e = tiny_words().encode("a b");
  const auto scores = one_hot({0, 0, 1, 0});
  const auto found = [&](const Values& ignored) {
    return told(find_entities(tiny_words(), "a b", e, scores, kThree, Aggregation::kSimple, ignored));
  };
  EXPECT_EQ(found({}), "O 'a' 0-1;X 'b' 2-3;");
  EXPECT_EQ(found({"X"}), "O 'a' 0-1;");
}

TEST(Entities, TextThatIsNoUtf8IsReadAsTheTokenizerReadsIt) {
  const std::string text = "\xff a";
  const Encoding e = tiny_words().encode(text);
  EXPECT_EQ(told(find_entities(tiny_words(), text, e, one_hot(std::vector<size_t>(e.size(), 1)), kThree,
                               Aggregation::kSimple)),
            "X 'a' 2-3;");
  std::vector<Encoding> words{encode_words(tiny_words(), Values{"\xff", "a"})};
  EXPECT_EQ(text_of_words(Values{"\xff", "a"}, words), "\uFFFD a");
  EXPECT_EQ(words[0].offsets[1], (std::array<int32_t, 2>{2, 3}));
}

TEST(Entities, NamesAndShapes) {
  EXPECT_EQ(aggregation_named("average"), Aggregation::kAverage);
  EXPECT_EQ(aggregation_named("mean"), std::nullopt);
  EXPECT_EQ(
      message_of(
          ErrorCode::kShape,
          [] { find_entities(tiny_words(), "a", tiny_words().encode("a"), {}, kThree, Aggregation::kNone); }),
      "entities: found 0 scores, expected 3 tokens × 3 labels");
  EXPECT_TRUE(without_overlaps({}).empty());
  EXPECT_TRUE(
      find_entities(tiny_words(), "", tiny_words().encode(""), one_hot({1, 1}), kThree, Aggregation::kMax)
          .empty());
}

}  // namespace
}  // namespace lathe
