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

/// A run "until it is stopped" begins at once.  Its three longest texts come together in one of 40 epochs.
TEST(LargestBatch, OfARunWithoutEndComesAtOnce) {
  const Bucket found = largest_batch(samples(10), {.size = 10, .batch_size = 3}, {1, 1}, int64_t{1} << 50);
  EXPECT_EQ(found.tokens, 10 + 9 + 8);
  EXPECT_EQ(found.rows, 3);
}

}  // namespace
}  // namespace lathe
