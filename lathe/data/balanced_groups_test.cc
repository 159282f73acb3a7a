#include "lathe/data/balanced_groups.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lathe/core/source_folder_testing.h"
#include "lathe/data/sampler.h"

namespace lathe {
namespace {

TEST(BalancedGroups, BatchesAreThoseOfTransformers) {
  std::ifstream file(source_path("tests/golden/arguments/batch_rebalance.json"));
  ASSERT_TRUE(file);
  for (const auto& row : nlohmann::json::parse(file)) {
    const auto lengths = row["lengths"].get<std::vector<int32_t>>();
    SamplerOptions options;
    options.strategy = SamplingStrategy::kBatchRebalance;
    options.size = static_cast<int64_t>(lengths.size());
    options.batch_size = row["batch"];
    options.accumulation = row["accumulation"];
    options.drop_last = row["drop_last"];
    options.seed = row["seed"];
    options.world_size = static_cast<int>(row["ranks"].size());
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      Sampler sampler(options, lengths);
      const auto& wanted = row["ranks"][static_cast<size_t>(options.rank)];
      ASSERT_EQ(sampler.batches_per_epoch(), static_cast<int64_t>(wanted.size()));
      std::vector<int32_t> batch;
      for (size_t i = 0; i < wanted.size(); ++i) {
        sampler.batch(row["epoch"], static_cast<int64_t>(i), batch);
        EXPECT_EQ(batch, wanted[i].get<std::vector<int32_t>>()) << "rank " << options.rank << " batch " << i;
      }
    }
  }
}

TEST(BalancedGroups, AnEpochDoesNotDependOnTheOneBefore) {
  const std::vector<int32_t> lengths = {9, 80, 3, 44, 12, 7, 61, 5};
  const SamplerOptions options{.size = 8, .batch_size = 6, .strategy = SamplingStrategy::kBatchRebalance};
  Sampler second(options, lengths), fresh(options, lengths);
  std::vector<int32_t> batch, wanted;
  second.batch(0, 0, batch);
  second.batch(1, 0, batch);
  fresh.batch(1, 0, wanted);
  EXPECT_EQ(batch, wanted);
}

TEST(BalancedGroups, OrdinalsTellTheSamplesOfAnUpdateApart) {
  const std::vector<int32_t> lengths = {9, 80, 3, 44, 12, 7, 61, 5, 30, 31, 8, 2, 90};
  SamplerOptions options;
  options.strategy = SamplingStrategy::kBatchRebalance;
  options.size = static_cast<int64_t>(lengths.size());
  options.batch_size = 3, options.accumulation = 2, options.world_size = 2;
  std::vector<bool> taken(12);
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    Sampler sampler(options, lengths);
    for (int64_t micro = 0; micro < 2; ++micro) {
      std::vector<int32_t> batch;
      sampler.batch(0, micro, batch);
      for (size_t i = 0; i < batch.size(); ++i) {
        const size_t at = static_cast<size_t>(sampler.ordinal(0, micro)) + i;
        ASSERT_LT(at, taken.size());
        EXPECT_FALSE(taken[at]);
        taken[at] = true;
      }
    }
  }
}

}  // namespace
}  // namespace lathe
