#include "lathe/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

std::vector<std::vector<int32_t>> all_batches(Sampler& sampler, int64_t epoch) {
  std::vector<std::vector<int32_t>> out(static_cast<size_t>(sampler.batches_per_epoch()));
  for (size_t i = 0; i < out.size(); ++i) sampler.batch(epoch, static_cast<int64_t>(i), out[i]);
  return out;
}

TEST(Sampler, EpochDrawsFromSeedPlusEpoch) {
  for (const auto& c : golden("reference.json", "randperm")) {
    if (c["n"] != 3668) continue;
    Sampler sampler({.size = 3668, .batch_size = 32, .seed = 42});
    EXPECT_EQ(fnv64(sampler.order(c["seed"].get<int>() - 42)), c["fnv64"].get<std::string>());
  }
}

TEST(Sampler, BatchIsAFunctionOfEpochAndIndexAlone) {
  Sampler forward({.size = 100, .batch_size = 8}), resumed({.size = 100, .batch_size = 8});
  all_batches(forward, 0);
  const auto wanted = all_batches(forward, 3);
  std::vector<int32_t> batch;
  for (const int64_t i : {12, 5, 0}) {
    resumed.batch(3, i, batch);
    EXPECT_EQ(batch, wanted[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(wanted.size(), 13u);
  EXPECT_EQ(wanted.back().size(), 4u);
}

TEST(Sampler, EpochHoldsEverySampleOnce) {
  for (const auto strategy :
       {SamplingStrategy::kRandom, SamplingStrategy::kSequential, SamplingStrategy::kGroupByLength}) {
    const auto lengths = pseudo(1000, 90, 1);
    Sampler sampler({.size = 1000, .batch_size = 8, .strategy = strategy}, lengths);
    std::set<int32_t> seen;
    for (const auto& batch : all_batches(sampler, 1)) seen.insert(batch.begin(), batch.end());
    EXPECT_EQ(seen.size(), 1000u);
  }
}

TEST(Sampler, GroupsByLengthAsTransformers) {
  message_of(ErrorCode::kUsage, [] { length_grouped_order(pseudo(10, 9, 1), 0, 1); });
  for (const auto& c : golden("reference.json", "length_grouped")) {
    const uint64_t seed = c["seed"];
    const auto lengths = pseudo(c["n"].get<size_t>(), 120, seed);
    const auto order = length_grouped_order(lengths, c["group"], seed);
    const auto head = c["head"].get<std::vector<int32_t>>();
    ASSERT_EQ(std::vector<int32_t>(order.begin(), order.begin() + static_cast<long>(head.size())), head);
    EXPECT_EQ(fnv64(order), c["fnv64"].get<std::string>()) << c["n"];
    EXPECT_EQ(lengths[order[0]], *std::max_element(lengths.begin(), lengths.end()));
  }
}

TEST(Sampler, GroupsByLengthOverAllBatchesOfAnUpdate) {
  const auto lengths = pseudo(30, 90, 3);
  Sampler sampler({.size = 30,
                   .batch_size = 4,
                   .strategy = SamplingStrategy::kGroupByLength,
                   .seed = 5,
                   .length_group = 8},
                  lengths);
  const auto order = sampler.order(0);
  EXPECT_EQ(std::vector<int32_t>(order.begin(), order.end()), length_grouped_order(lengths, 8, 5));
}

TEST(Sampler, OrdinalsTellTheSamplesOfAnUpdateApart) {
  SamplerOptions options{.size = 48, .batch_size = 4};
  options.accumulation = 3, options.world_size = 2;
  std::set<int64_t> seen;
  for (options.rank = 0; options.rank < 2; ++options.rank)
    for (int64_t index = 3; index < 6; ++index) seen.insert(Sampler(options).ordinal(0, index));
  EXPECT_EQ(seen, (std::set<int64_t>{0, 4, 8, 12, 16, 20}));
}

TEST(Sampler, ShardsAsAccelerate) {
  for (const auto& c : golden("reference.json", "shards")) {
    for (int rank = 0; rank < c["world"].get<int>(); ++rank) {
      Sampler sampler({.size = c["size"],
                       .batch_size = c["batch_size"],
                       .strategy = SamplingStrategy::kSequential,
                       .drop_last = c["drop_last"],
                       .rank = rank,
                       .world_size = c["world"],
                       .even_batches = c["even"]});
      EXPECT_EQ(all_batches(sampler, 0), c["ranks"][rank].get<std::vector<std::vector<int32_t>>>())
          << c.dump() << " rank " << rank;
    }
  }
}

TEST(Sampler, RefusesOptionsThatMakeNoSense) {
  message_of(ErrorCode::kUsage, [] { Sampler({.size = 0}); });
  message_of(ErrorCode::kUsage, [] { Sampler({.size = 5, .batch_size = 0}); });
  message_of(ErrorCode::kUsage, [] { Sampler({.size = 5, .rank = 2, .world_size = 2}); });
  message_of(ErrorCode::kUsage, [] { Sampler({.size = 5, .strategy = SamplingStrategy::kGroupByLength}); });
  Sampler sampler({.size = 5, .batch_size = 2});
  std::vector<int32_t> batch;
  message_of(ErrorCode::kUsage, [&] { sampler.batch(0, 3, batch); });
  message_of(ErrorCode::kUsage, [&] { sampler.batch(-1, 0, batch); });
  message_of(ErrorCode::kUsage, [&] { sampler.batch_of(1, 0, 0, batch); });
  message_of(ErrorCode::kUsage, [&] { sampler.batch_of(-1, 0, 0, batch); });
}

TEST(Sampler, OfTextsThatAreKeptApartNoBatchHasOneTwice) {
  std::vector<std::vector<int32_t>> texts;
  for (int32_t i = 0; i < 24; ++i) texts.push_back({i % 6, 100 + i});
  SamplerOptions options{
      .size = 24, .batch_size = 4, .strategy = SamplingStrategy::kNoDuplicates, .texts = texts};
  Sampler sampler(options);
  std::vector<int32_t> batch, seen;
  for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
    sampler.batch(0, index, batch);
    std::vector<int32_t> first;
    for (const int32_t sample : batch) first.push_back(texts[static_cast<size_t>(sample)][0]);
    std::sort(first.begin(), first.end());
    EXPECT_EQ(std::unique(first.begin(), first.end()), first.end()) << index;
    seen.insert(seen.end(), batch.begin(), batch.end());
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()) - seen.begin(), 24);
  options.world_size = 2;
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    sampler = Sampler(options);
    for (int64_t index = 0; index < sampler.batches_per_epoch(); ++index) {
      sampler.batch(0, index, batch);
      EXPECT_EQ(batch.size(), 4u);
    }
  }
  options.texts = {};
  EXPECT_THROW(Sampler{options}, Error);
}

}  // namespace
}  // namespace lathe
