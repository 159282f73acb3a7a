// Compares with stored results of the package seqeval; tools/make_seqeval_golden.py writes them.
#include "lathe/data/words/seqeval.h"

#include <gtest/gtest.h>

#include <cstring>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/data/words/made_up_tags_testing.h"

namespace lathe {
namespace {

class ByteHash {
 public:
  template <typename T>
  void add(const std::string& text, const T& value) {
    put(text.data(), text.size());
    put(&value, sizeof value);
  }
  std::string hex() const { return fmt::format("{:016x}", hash_); }

 private:
  void put(const void* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i)
      hash_ = (hash_ ^ static_cast<const uint8_t*>(bytes)[i]) * 0x100000001B3u;
  }

  uint64_t hash_ = 0xCBF29CE484222325u;
};

struct Case {
  TagTexts references, predictions;
  TagStyle style = TagStyle::kPrefix;
};

Case made_up(int number, const nlohmann::json& golden) {
  MadeUp random(static_cast<uint64_t>(number) + 1);
  const bool suffix = random.below(8) == 0;
  const auto tags = suffix ? golden["suffixes"].get<Values>()
                           : golden["alphabets"][random.below(golden["alphabets"].size())].get<Values>();
  Case out{.style = suffix ? TagStyle::kSuffix : TagStyle::kPrefix};
  out.references.resize(1 + random.below(4));
  bool any = false;
  for (Values& sentence : out.references) {
    sentence.resize(random.below(13));
    for (std::string& tag : sentence) tag = tags[random.below(tags.size())];
    any |= !sentence.empty();
  }
  if (!any) out.references[0] = {tags[0]};
  const size_t wrong = 1 + random.below(4);
  out.predictions = out.references;
  for (Values& sentence : out.predictions)
    for (std::string& tag : sentence)
      if (random.below(4) < wrong) tag = tags[random.below(tags.size())];
  return out;
}

TEST(Seqeval, StoredCasesToTheLastBit) {
  for (const auto& c : golden("seqeval.json", "cases")) {
    const TagStyle style = c["suffix"] ? TagStyle::kSuffix : TagStyle::kPrefix;
    const auto scores = seqeval(c["references"].get<TagTexts>(), c["predictions"].get<TagTexts>(), style);
    EXPECT_EQ(seqeval_metrics(scores, true), metrics_of(c["metrics"])) << c["references"].dump();
  }
}

TEST(Seqeval, TenThousandMadeUpCasesToTheLastBit) {
  const nlohmann::json stored = golden("seqeval.json");
  const Values wanted = stored["fnv64_per_1000"];
  ByteHash hash;
  for (int number = 0; number < 1000 * static_cast<int>(wanted.size()); ++number) {
    const Case c = made_up(number, stored);
    for (const Values& sentence : c.references)
      for (const TagSpan& span : tag_spans(sentence, c.style)) {
        hash.add(span.type, span.first);
        hash.add("", span.last);
      }
    for (const auto& [key, value] : seqeval_metrics(seqeval(c.references, c.predictions, c.style), true))
      hash.add(key, value);
    if ((number + 1) % 1000 != 0) continue;
    EXPECT_EQ(hash.hex(), wanted[static_cast<size_t>(number / 1000)]) << "before case " << number + 1;
    hash = {};
  }
}

TEST(Seqeval, IdsCountAsTheirLabels) {
  const Values labels = {"O", "B-PER", "I-PER", "B-PER"};  // two ids of one text
  const TagTexts wanted = {{"B-PER", "I-PER", "O"}, {}}, found = {{"B-PER", "I-PER", "B-PER"}, {}};
  const auto by_text = seqeval_metrics(seqeval(wanted, found), true);
  EXPECT_EQ(seqeval_metrics(seqeval(TagIds{{3, 2, 0}, {}}, {{1, 2, 1}, {}}, labels), true), by_text);
  EXPECT_EQ(by_text, (MetricValues{{"PER_precision", 0.5},
                                   {"PER_recall", 1},
                                   {"PER_f1", 2.0 * 0.5 * 1 / 1.5},
                                   {"PER_number", 1},
                                   {"overall_precision", 0.5},
                                   {"overall_recall", 1},
                                   {"overall_f1", 2.0 * 0.5 * 1 / 1.5},
                                   {"overall_accuracy", 2.0 / 3}}));
}

TEST(Seqeval, OverallKeysAsRunNerNamesThem) {
  const SeqevalScores scores = seqeval(TagTexts{{"B-A", "O"}}, {{"B-A", "B-A"}});
  EXPECT_EQ(
      seqeval_metrics(scores, false),
      (MetricValues{{"precision", 0.5}, {"recall", 1}, {"f1", 2.0 * 0.5 * 1 / 1.5}, {"accuracy", 0.5}}));
}

TEST(Seqeval, NoEntityAnywhereIsZero) {
  const SeqevalScores scores = seqeval(TagTexts{{"O", "O"}}, {{"O", "O"}});
  EXPECT_TRUE(scores.types.empty());
  EXPECT_EQ(scores.overall, SpanScores{});
  EXPECT_EQ(scores.accuracy, 1);
}

TEST(Seqeval, TypesNamedAsTheReportsRows) {
  const SeqevalScores scores =
      seqeval(TagTexts{{"B-overall", "B-overall_f1", "B-micro avg"}}, {{"O", "B-overall_f1", "B-micro avg"}});
  Values keys;
  for (const auto& [key, value] : seqeval_metrics(scores, true)) keys.push_back(key);
  EXPECT_EQ(keys, (Values{"overall_precision", "overall_recall", "overall_f1", "overall_number",
                          "overall_accuracy"}));
}

TEST(Seqeval, RefusesWhatHasNoScore) {
  const auto refused = [](const TagTexts& wanted, const TagTexts& found) {
    return message_of(ErrorCode::kUsage, [&] { seqeval(wanted, found); });
  };
  EXPECT_EQ(refused({{"O"}}, {}),
            "seqeval: found 0 sentences of predictions and 1 of references, expected as many");
  EXPECT_EQ(refused({{"O"}, {"O"}}, {{"O"}, {}}),
            "seqeval: sentence 2: found 0 predictions and 1 references, expected as many");
  EXPECT_EQ(refused({{}}, {{}}), "seqeval: no word has a tag; expected at least one to score");
  EXPECT_EQ(refused({{""}}, {{"O"}}),
            "seqeval: found an empty tag, expected a text such as \"B-PER\" or \"O\"");
  EXPECT_EQ(message_of(ErrorCode::kUsage, [] { seqeval(TagIds{{0}}, {{-1}}, Values{"O"}); }),
            "seqeval: sentence 1: found label -1, expected one of 0 to 0");
}

}  // namespace
}  // namespace lathe
