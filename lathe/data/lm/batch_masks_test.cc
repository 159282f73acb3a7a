#include "lathe/data/lm/batch_masks.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using Ints = std::vector<int32_t>;

MaskRules some_rules(double probability = 0.5) {
  return {.mask_id = 4, .vocab_size = 100, .special_ids = {0, 1, 2, 3, 4}, .probability = probability};
}

/// Samples of 8 tokens, the first and the last of which are special.
TokenizedDataset eights(int count) {
  Ints ids;
  std::vector<int64_t> begins{0};
  for (int i = 0; i < count; ++i) {
    ids.insert(ids.end(), {2, 10, 11, 12, 13, 14, 15, 3});
    begins.push_back(std::ssize(ids));
  }
  return masked_lm_samples(std::move(ids), std::move(begins), {});
}

TEST(BatchMasks, GiveABatchTheDrawsOfTheCollator) {
  const TokenizedDataset data = eights(5);
  BatchMasks masks(some_rules(), 7);
  TorchGenerator generator(7);
  masks.begin();
  generator.random63();
  MaskCollator collator(some_rules());
  PackedBatch batch;
  for (int turn = 0; turn < 3; ++turn) {
    pack_batch(data, Ints{4, 1, 2}, {.rounding = {32, 32}}, batch);
    masks.mask(batch, {4, 4});
    Ints ids(data.input_ids.begin(), data.input_ids.begin() + 24), labels(24);
    collator.mask(ids, Ints{0, 8, 16, 24}, generator, labels);
    EXPECT_EQ(Ints(batch.input_ids.begin(), batch.input_ids.begin() + 24), ids);
    EXPECT_EQ(batch.real_scored, 24 - std::count(labels.begin(), labels.end(), -100));
    const Ints &places = std::as_const(batch.tensors).ints("scored_index"),
               &scored = std::as_const(batch.tensors).ints("labels");
    ASSERT_EQ(std::ssize(places), batch.scored);
    for (int i = 0; i < batch.scored; ++i)
      EXPECT_EQ(scored[i], i < batch.real_scored ? labels[places[i]] : -100);
    EXPECT_EQ(batch.scored, 24);  // 16 + 3 · √8 of 32
  }
}

TEST(BatchMasks, GoOnFromTheirState) {
  const TokenizedDataset data = eights(4);
  BatchMasks masks(some_rules(), 1);
  masks.begin(4);
  const std::vector<std::byte> state = bytes_of_hex(hex_of(masks.state()), "test");
  PackedBatch first, again;
  for (PackedBatch* batch : {&first, &again}) {
    pack_batch(data, Ints{0, 1, 2, 3}, {}, *batch);
    masks.restore(state);
    masks.mask(*batch, {1, 1});
  }
  EXPECT_EQ(first.input_ids, again.input_ids);
  EXPECT_THROW(masks.restore(bytes_of_hex("0102", "test")), Error);
  EXPECT_THROW(bytes_of_hex("01x", "test"), Error);
}

TEST(BatchMasks, SpecialTokensAreThoseOfTheDataWhereTheySayWhich) {
  Ints ids{2, 10, 11, 3};
  TokenizedDataset data = masked_lm_samples(ids, {0, 4}, {0, 1, 0, 0});
  BatchMasks masks(some_rules(1), 1);
  PackedBatch batch;
  pack_batch(data, Ints{0}, {}, batch);
  masks.mask(batch, {1, 1});
  EXPECT_EQ(std::as_const(batch.tensors).ints("scored_index"), (Ints{0, 2, 3, 0}));
}

TEST(BatchMasks, OfOneSizeNearlyAllBatchesHaveOneNumberOfScoredTokens) {
  const BatchMasks masks(some_rules(0.15), 1);
  EXPECT_EQ(masks.usual_scored(4096), 683);  // 614.4 + 3 · 22.9
  EXPECT_EQ(masks.usual_scored(1), 1);
}

}  // namespace
}  // namespace lathe
