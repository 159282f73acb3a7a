#include "lathe/data/hub_data.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(HubData, ConvertedFilesByConfigAndSplit) {
  const std::vector<std::string> files = {"a/train/0001.parquet", "a/train/0000.parquet",
                                          "a/test/0000.parquet", "b/train/0000.parquet", ".gitattributes"};
  const SplitFiles expected = {{"test", {"a/test/0000.parquet"}},
                               {"train", {"a/train/0000.parquet", "a/train/0001.parquet"}}};
  EXPECT_EQ(converted_splits(files, "a", "d"), expected);
  EXPECT_THROW(converted_splits(files, std::nullopt, "d"), Error);
  EXPECT_THROW(converted_splits(files, "c", "d"), Error);
  EXPECT_EQ(converted_splits({"x/train/0000.parquet"}, std::nullopt, "d").size(), 1u);
  EXPECT_EQ(converted_splits({"x/train/0000.parquet", "default/test/0000.parquet"}, std::nullopt, "d")
                .count("test"),
            1u);
  EXPECT_THROW(converted_splits({"x/partial-train/0000.parquet"}, std::nullopt, "d"), Error);
}

TEST(HubData, NamesTellWhetherAllPartsAreThere) {
  EXPECT_EQ(are_all_parts({"d/a-00000-of-00002.csv", "d/a-00001-of-00002.csv"}), true);
  EXPECT_EQ(are_all_parts({"d/a-00000-of-00002.csv"}), false);
  EXPECT_EQ(are_all_parts({"a-0-of-1.csv", "b-0-of-2.csv"}), false);
  EXPECT_EQ(are_all_parts({"a-0-of-1.csv", "b.csv"}), std::nullopt);
  EXPECT_EQ(are_all_parts({"x/train/0000.parquet"}), std::nullopt);
  EXPECT_EQ(are_all_parts({"a-0-of-1-of-0.csv"}), false);  // part 1 of 0
  EXPECT_EQ(are_all_parts({"a-1-of-2-0-of-1.csv.gz"}), true);
  EXPECT_EQ(are_all_parts({"a-0-of-1.b/c"}), std::nullopt);
  for (const std::string part : {"-of-", "-0-of-0", "0"}) {  // a recursive matcher used up the stack
    std::string name;
    while (name.size() < 1 << 20) name += part;
    EXPECT_EQ(are_all_parts({name}), std::nullopt);
    EXPECT_EQ(are_all_parts({name + "-0-of-1.csv"}), true);
  }
}

TEST(HubData, OtherFilesByTheWordsInTheirPaths) {
  const SplitFiles found = named_splits({"README.md", "dataset_infos.json", "data/train-00000-of-00001.csv",
                                         "data/Dev.csv", "test/part.csv", "train.jsonl"},
                                        std::nullopt);
  EXPECT_EQ(found, (SplitFiles{{"test", {"test/part.csv"}},
                               {"train", {"data/train-00000-of-00001.csv"}},
                               {"validation", {"data/Dev.csv"}}}));
  EXPECT_EQ(named_splits({"questions.jsonl"}, std::nullopt), (SplitFiles{{"train", {"questions.jsonl"}}}));
  EXPECT_EQ(named_splits({"de/train.csv", "en/train.csv"}, "en"), (SplitFiles{{"train", {"en/train.csv"}}}));
  const SplitFiles english = {{"train", {"en/train.csv"}}};
  EXPECT_EQ(named_splits({"en/train.csv", "french/train.csv", "open/train.csv", "en-de/train.csv"}, "en"),
            english);
  EXPECT_EQ(named_splits({"en/README.md", "train-en.csv", "train-french.csv"}, "en"),
            (SplitFiles{{"train", {"train-en.csv"}}}));
  EXPECT_EQ(named_splits({"train/en.csv", "train/en_de.csv", "open.csv"}, "en"),
            (SplitFiles{{"train", {"train/en.csv"}}}));
  EXPECT_TRUE(named_splits({"french/train.csv"}, "en").empty());
  EXPECT_TRUE(named_splits({"latest.csv"}, std::nullopt).contains("train"));  // "test" is no word in it
  EXPECT_TRUE(named_splits({"README.md"}, std::nullopt).empty());
}

}  // namespace
}  // namespace lathe
