#include "lathe/data/words/tag_labels.h"

#include <gtest/gtest.h>

#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Ids = std::vector<int32_t>;
using LabelIds = std::vector<std::pair<std::string, int>>;

WordTable with_tags(const TagTexts& tags) {
  WordTable out{.origin = "f.conll", .tags = tags};
  for (const Values& sentence : tags) {
    out.words.emplace_back(sentence.size(), "w");
    out.lines.push_back(static_cast<uint32_t>(out.lines.size()) + 1);
  }
  return out;
}

const TagTexts kTags = {{"O", "I-PER", "B-PER"}, {"B-LOC", "O"}};
const Values kSorted = {"B-LOC", "B-PER", "I-PER", "O"};

TEST(TagLabels, SortedTagsOfTraining) {
  EXPECT_EQ(choose_tag_labels(with_tags(kTags), {}).names(), kSorted);
  EXPECT_EQ(choose_tag_labels(with_tags({{"é", "Z", "a"}}), {}).names(), (Values{"Z", "a", "é"}));
}

TEST(TagLabels, NumbersSortAsNumbers) {
  WordTable table = with_tags({{"10", "9"}});
  EXPECT_EQ(choose_tag_labels(table, {}).names(), (Values{"10", "9"}));
  table.numbered = true;
  EXPECT_EQ(choose_tag_labels(table, {}).names(), (Values{"9", "10"}));
}

TEST(TagLabels, ClassesInTheirOrderThoughTheyAreNotMet) {
  WordTable table = with_tags({{"O"}});
  table.classes = {"O", "B-X", "I-X"};
  EXPECT_EQ(choose_tag_labels(table, {}).names(), table.classes);
}

TEST(TagLabels, OrderOfTheModelIfTheNamesAreTheSame) {
  std::string notice;
  const WordTable table = with_tags(kTags);
  const LabelIds same = {{"O", 0}, {"B-PER", 1}, {"I-PER", 2}, {"B-LOC", 3}};
  EXPECT_EQ(choose_tag_labels(table, same, &notice).names(), (Values{"O", "B-PER", "I-PER", "B-LOC"}));
  EXPECT_EQ(notice, "");
  const LabelIds other = {{"O", 0}, {"B-PER", 1}, {"I-PER", 2}, {"b-loc", 3}};
  EXPECT_EQ(choose_tag_labels(table, other, &notice).names(), kSorted);
  EXPECT_EQ(notice,
            "the model has the labels 'B-PER', 'I-PER', 'O', 'b-loc'; the data has 'B-LOC', 'B-PER', "
            "'I-PER', 'O', and "
            "these are used");
  const LabelIds without_names = {{"LABEL_0", 0}, {"LABEL_1", 1}, {"LABEL_2", 2}, {"LABEL_3", 3}};
  EXPECT_EQ(choose_tag_labels(table, without_names, &notice).names(), kSorted);
  EXPECT_EQ(notice, "");
  EXPECT_EQ(choose_tag_labels(table, {{"O", 0}, {"X", 1}}, &notice).names(), kSorted);
  EXPECT_EQ(notice, "");  // another number of them: transformers forgets the model's
}

TEST(TagLabels, InnerPartsOnlyWhereTheyExist) {
  EXPECT_EQ(TagLabels({"B-LOC", "B-PER", "I-PER", "O", "B-B-X", "I-I-X", "XB-PER"}).inner(),
            (Ids{0, 2, 2, 3, 5, 5, 6}));
}

TEST(TagLabels, UnknownTagNamesItsPlace) {
  const TagLabels labels = choose_tag_labels(with_tags(kTags), {});
  EXPECT_EQ(tag_ids(with_tags(kTags), labels), (TagIds{{3, 2, 1}, {0, 3}}));
  EXPECT_EQ(message_of(ErrorCode::kInvalidData,
                       [&] {
                         tag_ids(with_tags({{"O"}, {"O", "B-GEO"}}), labels);
                       }),
            "f.conll:2: word 2 ('w') has the tag 'B-GEO', which is no label of the model or its training "
            "data; expected "
            "one of 'B-LOC', 'B-PER', 'I-PER', 'O': mend the tag, take these sentences out, or train with "
            "data that has "
            "it");
  EXPECT_EQ(
      message_of(ErrorCode::kInvalidData, [] { choose_tag_labels(WordTable{.origin = "f.conll"}, {}); }),
      "f.conll: found no tag, expected words with tags to learn from");
}

}  // namespace
}  // namespace lathe
