#include "lathe/train/ranks.h"

#include <gtest/gtest.h>

#include <functional>

namespace lathe {
namespace {

TokenizedDataset two_samples() {
  TokenizedDataset data;
  data.input_ids = {1, 2, 3, 4, 5};
  data.type_ids = {0, 0, 1, 0, 1};
  data.begins = {0, 3, 5};
  data.labels = {0, 1};
  data.targets = {0.5f, -0.5f};
  data.start_positions = {1, 0};
  data.end_positions = {2, 1};
  return data;
}

std::string summary_of(const TokenizedDataset& data) { return summary({&data, 1}); }

TEST(Summary, ChangesWithAllThatASampleHas) {
  const std::string before = summary_of(two_samples());
  EXPECT_TRUE(before.starts_with("2 samples with the checksum ")) << before;
  EXPECT_EQ(summary_of(two_samples()), before);
  const std::vector<std::function<void(TokenizedDataset&)>> changes = {
      [](TokenizedDataset& data) { std::swap(data.input_ids[0], data.input_ids[4]); },
      [](TokenizedDataset& data) { data.type_ids[4] = 0; },
      [](TokenizedDataset& data) { data.begins[1] = 2; },
      [](TokenizedDataset& data) { data.labels[1] = 0; },
      [](TokenizedDataset& data) { std::swap(data.targets[0], data.targets[1]); },  // two signs
      [](TokenizedDataset& data) { data.start_positions[0] = 0; },
      [](TokenizedDataset& data) { data.end_positions[0] = 1; },
      [](TokenizedDataset& data) { data.labels.clear(); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    TokenizedDataset data = two_samples();
    changes[i](data);
    EXPECT_NE(summary_of(data), before) << i;
  }
}

TEST(Checksum, KnowsWhereOneValueEnds) {
  EXPECT_NE(Checksum().add(std::string("ab")).add(std::string("c")).text(),
            Checksum().add(std::string("a")).add(std::string("bc")).text());
}

TEST(CommonFlags, LeavesOutPathsAndWhatIsAProcesssOwn) {
  EXPECT_EQ(common_flags({{"train_file", "a.csv"}, {"threads", 2}, {"seed", 7}, {"bf16", true}}),
            nlohmann::json({{"--seed", 7}, {"--bf16", true}}));
}

}  // namespace
}  // namespace lathe
