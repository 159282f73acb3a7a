#include "lathe/train/batch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lathe {
namespace {

/// One sample of each length from 1 to `count`.
TokenizedDataset samples(int count) {
  TokenizedDataset data;
  for (int length = 1; length <= count; ++length) {
    data.input_ids.resize(data.input_ids.size() + static_cast<size_t>(length), 5);
    data.type_ids.resize(data.input_ids.size(), 0);
    data.begins.push_back(static_cast<int64_t>(data.input_ids.size()));
    data.tensors.ints("labels").push_back(0);
  }
  return data;
}

TEST(LargestBatch, IsThatOfTheEpochs) {
  const TokenizedDataset data = samples(10);
  const SamplerOptions options{.size = 10, .batch_size = 3};
  Bucket wanted;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    BatchStream stream(data, options, {}, epoch, 0, epoch + 1);
    while (const PackedBatch* batch = stream.next()) {
      wanted.tokens = std::max<int64_t>(wanted.tokens, batch->real_tokens());
      wanted.rows = std::max<int64_t>(wanted.rows, batch->rows);
    }
    const Bucket found = largest_batch(data, options, {1, 1}, epoch + 1);
    EXPECT_EQ(found.tokens, wanted.tokens) << epoch;
    EXPECT_EQ(found.rows, wanted.rows) << epoch;
  }
}

TEST(LargestBatch, CountsTheRowsOfSamples) {
  TokenizedDataset data = samples(10);
  data.first_rows = {0, 2, 5, 10};
  data.tensors.clear();
  data.tensors.ints("labels").assign(3, 0);
  EXPECT_EQ(largest_batch(data, {.size = 3, .batch_size = 2}, {1, 1}, 50), (Bucket{52, 8, 0, 2}));
  BatchStream stream(data, {.size = 3, .batch_size = 2, .strategy = SamplingStrategy::kSequential}, {}, 0, 0,
                     1);
  EXPECT_EQ(stream.next()->rows, 5);
  const PackedBatch* last = stream.next();
  EXPECT_EQ(last->rows, 5);
  EXPECT_EQ(last->samples, std::vector<int32_t>{2});
  EXPECT_EQ(last->real_tokens(), 6 + 7 + 8 + 9 + 10);
}

/// A run "until it is stopped" begins at once.  Its three longest texts come together in one of 40 epochs.
TEST(LargestBatch, OfARunWithoutEndComesAtOnce) {
  const Bucket found = largest_batch(samples(10), {.size = 10, .batch_size = 3}, {1, 1}, int64_t{1} << 50);
  EXPECT_EQ(found.tokens, 10 + 9 + 8);
  EXPECT_EQ(found.rows, 3);
}

/// Ten samples of eight tokens as a masked language model learns from them.
TokenizedDataset unmasked() {
  std::vector<int32_t> ids;
  std::vector<int64_t> begins{0};
  for (int32_t i = 0; i < 80; ++i) {
    ids.push_back(10 + i);
    if (i % 8 == 7) begins.push_back(i + 1);
  }
  return masked_lm_samples(std::move(ids), std::move(begins), {});
}
BatchMasks some_masks() {
  return {{.mask_id = 4, .vocab_size = 100, .special_ids = {4}, .probability = 0.5}, 1};
}
const SamplerOptions kPairs{.size = 10, .batch_size = 2};

TEST(BatchStream, MasksOneBatchAheadWithinAnEpoch) {
  const TokenizedDataset data = unmasked();
  BatchMasks masks = some_masks(), by_hand = some_masks();
  BatchStream stream(data, kPairs, {}, 0, 0, 2), plain(data, kPairs, {}, 0, 0, 2);
  stream.mask_with(masks);
  std::vector<PackedBatch> wanted;
  const auto mask_by_hand = [&] { by_hand.mask(wanted.emplace_back(*plain.next()), {}); };
  for (int batch = 0; batch < 10; ++batch) {
    if (batch % 5 == 0) by_hand.begin(), mask_by_hand();
    const std::vector<std::byte> before = by_hand.state();
    if (batch % 5 < 4) mask_by_hand();
    const PackedBatch* found = stream.next();
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->input_ids, wanted[static_cast<size_t>(batch)].input_ids) << batch;
    EXPECT_EQ(masks.state(), by_hand.state()) << batch;
    EXPECT_EQ(stream.masks_before(), batch % 5 < 4 ? before : std::vector<std::byte>()) << batch;
  }
  EXPECT_EQ(stream.next(), nullptr);
}

TEST(BatchStream, GoesOnWithTheMasksOfAStreamThatStopped) {
  const TokenizedDataset data = unmasked();
  BatchMasks masks = some_masks(), again = some_masks();
  BatchStream stream(data, kPairs, {}, 0, 0, 2);
  stream.mask_with(masks);
  for (int batch = 0; batch < 3; ++batch) stream.next();
  masks.begin();  // an evaluation
  again.restore(masks.state());
  BatchStream other(data, kPairs, {}, 0, 3, 2);
  other.mask_with(again, stream.masks_before());
  const int64_t scored = stream.scored_in_next(2);
  EXPECT_EQ(other.scored_in_next(2), scored);
  int64_t counted = 0;
  for (int batch = 3; batch < 10; ++batch) {
    const PackedBatch *here = stream.next(), *there = other.next();
    EXPECT_EQ(here->input_ids, there->input_ids) << batch;
    if (batch < 5) counted += here->real_scored;
  }
  EXPECT_EQ(counted, scored);
  EXPECT_EQ(masks.state(), again.state());
}

/// Its batches are of one size, so one program runs them all.
TEST(LargestBatch, OfMaskedSamplesHasTheUsualNumberOfScoredTokens) {
  const BatchMasks masks = some_masks();
  EXPECT_EQ(largest_batch(unmasked(), kPairs, {1, 1}, 1, &masks).scored, masks.usual_scored(16));
}

}  // namespace
}  // namespace lathe
