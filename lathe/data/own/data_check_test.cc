#include "lathe/data/own/data_check.h"

#include <gtest/gtest.h>

#include "lathe/data/test_data.h"

namespace lathe {
namespace {

TextDataset csv(const std::string& bytes) {
  return dataset_from_table(parse_table("text,label\n" + bytes, TableFormat::kCsv, {}, "own.csv"));
}

/// Rows with these labels, each twice.
std::vector<std::string> doubts_of(const std::vector<std::string>& labels) {
  std::string rows;
  for (const std::string& label : labels) rows += "a,\"" + label + "\"\nb,\"" + label + "\"\n";
  return label_doubts(csv(rows));
}

TEST(DataCheck, LabelsWithoutFaultRaiseNoDoubt) {
  EXPECT_EQ(doubts_of({"billing", "bug", "How-To"}), Values{});
  EXPECT_EQ(doubts_of({"0", "1"}), Values{});
  EXPECT_EQ(doubts_of({"0.5", "1"}), Values{});
}

TEST(DataCheck, EachFaultHasItsSentence) {
  const auto only = [](const std::vector<std::string>& labels, const std::string& words) {
    const std::vector<std::string> doubts = doubts_of(labels);
    ASSERT_EQ(doubts.size(), 1u) << words;
    EXPECT_TRUE(contains(doubts[0], words)) << doubts[0];
  };
  only({"x"}, "every row has the label 'x'");
  only({"Bug", "bug ", "billing"},
       "differ only in case, blanks or spelling are different classes: 'Bug', 'bug '");
  only({"1", "2", "other"}, "some labels are numbers ('1', '2') and some are words ('other')");
  only({"['a', 'b']", "['a']"}, "look like lists are taken for one class each: '['a', 'b']', '['a']'");
  only({"1", "2.0"}, "all are whole numbers (1, 2): --do_regression False makes them classes");
  EXPECT_TRUE(contains(label_doubts(csv("a,x\nb,x\nc,y\n"))[0], "labels of a single row: 'y'"));
}

TEST(DataCheck, RowsInBothAreFoundByAllTheirTexts) {
  const auto train = csv("a,x\nb,y\n");
  EXPECT_EQ(rows_in_both(train, csv("b,x\nb,x\nc,y\n")), 2u);
  const auto pairs = [](const char* bytes) {
    return dataset_from_table(parse_table(bytes, TableFormat::kCsv, {}, "own.csv"));
  };
  EXPECT_EQ(rows_in_both(pairs("one,two,label\na,b,x\n"), pairs("one,two,label\na,c,x\na,b,y\nab,,x\n")), 1u);
}

TEST(DataCheck, LengthsAreWhatSoManyHaveAtMost) {
  std::vector<int32_t> lengths;
  for (int i = 100; i > 0; --i) lengths.push_back(i);
  const LengthFacts facts = length_facts(lengths);
  EXPECT_EQ((std::vector<int>{facts.median, facts.most_of_90, facts.most_of_99, facts.longest}),
            (std::vector<int>{50, 90, 99, 100}));
  EXPECT_EQ(length_facts({7}).median, 7);
}

}  // namespace
}  // namespace lathe
