#include "lathe/data/batch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "lathe/data/prefetcher.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

using Ints = std::vector<int32_t>;

TokenizedDataset toy() {
  TokenizedDataset d;
  d.input_ids = {101, 7, 102, 101, 102, 101, 8, 102, 9, 102};
  d.type_ids = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  d.begins = {0, 3, 5, 10};
  d.tensors.ints("labels") = {4, 5, 6};
  d.tensors.floats("targets", 2) = {1, 0, 0, 1, 1, 1};
  d.tensors.ints("start_positions") = {1, 0, 3};
  d.tensors.ints("end_positions") = {1, 0, 3};
  return d;
}

TEST(PackBatch, LabelsOfTokensFollowTheirTokensAndTheFillingHasNone) {
  TokenizedDataset d = toy();
  d.tensors.ints("labels", Extent::kToken) = {-100, 1, -100, -100, -100, -100, 2, -100, 3, -100};
  PackedBatch b;
  pack_batch(d, Ints{2, 0}, {.rounding = {8, 8}}, b);
  const Tensor* labels = b.tensors.find("labels");
  ASSERT_NE(labels, nullptr);
  EXPECT_EQ(labels->extent, Extent::kToken);
  EXPECT_EQ(std::as_const(b).tensors.ints("labels"), (Ints{-100, 2, -100, 3, -100, -100, 1, -100}));
  pack_batch(d, Ints{1}, {.rounding = {8, 8}}, b);
  EXPECT_EQ(std::as_const(b).tensors.ints("labels"), Ints(8, -100));
}

TEST(PackBatch, RowsOfASampleFollowEachOtherAndHaveMasksOfTheirOwn) {
  TokenizedDataset d = toy();
  d.first_rows = {0, 1, 3};  // a sample of one row, and one of two
  d.tensors.clear();
  d.tensors.ints("labels") = {0, 1};
  EXPECT_EQ(d.size(), 2);
  EXPECT_EQ(d.lengths(), (Ints{3, 7}));
  EXPECT_EQ(d.longest(), 5);
  PackedBatch b;
  pack_batch(d, Ints{1, 0}, {.rounding = {1, 1}, .first_ordinal = 6}, b);
  EXPECT_EQ(b.rows, 3);
  EXPECT_EQ(b.sample_count(), 2);
  EXPECT_EQ(b.cu_seqlens, (Ints{0, 2, 7, 10}));
  EXPECT_EQ(std::as_const(b).tensors.ints("first_rows"), (Ints{0, 2, 3}));
  EXPECT_EQ(std::as_const(b).tensors.ints("labels"), (Ints{1, 0}));
  constexpr int32_t kNext = 6 + (1 << 20);
  EXPECT_EQ(b.sample_ids, (Ints{6, 6, kNext, kNext, kNext, kNext, kNext, 7, 7, 7}));
  pack_batch(toy(), Ints{0, 1}, {}, b);
  EXPECT_FALSE(b.has_several_rows());
  EXPECT_EQ(b.sample_count(), 2);
}

TEST(PackBatch, OfDataWithoutATensorABatchHasNone) {
  PackedBatch b;
  pack_batch(toy(), Ints{0}, {}, b);
  ASSERT_NE(b.tensors.find("labels"), nullptr);
  TokenizedDataset d = toy();
  d.tensors.erase("labels");
  pack_batch(d, Ints{0}, {}, b);
  EXPECT_EQ(b.tensors.find("labels"), nullptr);
  EXPECT_NE(b.tensors.find("start_positions"), nullptr);
}

TEST(PackBatch, OfScoredTokensABatchHasTheirPlacesAndLabels) {
  TokenizedDataset d = toy();
  d.tensors.ints("labels", Extent::kScored) = {-100, 1, -100, -100, -100, -100, 2, -100, 3, -100};
  PackedBatch b;
  pack_batch(d, Ints{2, 0}, {.rounding = {4, 4}}, b);
  EXPECT_EQ(b.real_scored, 3);
  EXPECT_EQ(b.scored, 4);
  EXPECT_EQ(std::as_const(b).tensors.ints("scored_index"), (Ints{1, 3, 6, 0}));
  EXPECT_EQ(std::as_const(b).tensors.ints("labels"), (Ints{2, 3, 1, -100}));
  pack_batch(d, Ints{1}, {.rounding = {4, 4}}, b);  // none is scored: the filling
  EXPECT_EQ(b.real_scored, 0);
  EXPECT_EQ(std::as_const(b).tensors.ints("labels"), Ints(4, -100));
}

TEST(PackBatch, PutsRowsSideBySide) {
  PackedBatch b;
  pack_batch(toy(), Ints{2, 0}, {.rounding = {4, 4}, .first_ordinal = 16}, b);
  EXPECT_EQ(b.rows, 2);
  EXPECT_EQ(b.tokens, 8);
  EXPECT_EQ(b.real_tokens(), 8);
  EXPECT_EQ(b.longest_row, 5);
  EXPECT_EQ(b.input_ids, (Ints{101, 8, 102, 9, 102, 101, 7, 102}));
  EXPECT_EQ(b.token_type_ids, (Ints{0, 0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(b.position_ids, (Ints{0, 1, 2, 3, 4, 0, 1, 2}));
  EXPECT_EQ(b.sample_ids, (Ints{16, 16, 16, 16, 16, 17, 17, 17}));
  EXPECT_EQ(b.cu_seqlens, (Ints{0, 5, 8}));
  EXPECT_EQ(b.cls_index, (Ints{0, 5}));
  EXPECT_EQ(b.tensors.ints("labels"), (Ints{6, 4}));
  EXPECT_EQ(b.tensors.floats("targets"), (std::vector<float>{1, 1, 1, 0}));
  EXPECT_EQ(b.tensors.ints("start_positions"), (Ints{3, 1}));
  EXPECT_EQ(b.samples, (Ints{2, 0}));
}

TEST(PackBatch, FillsUpWithTokensOfNoRow) {
  PackedBatch b;
  pack_batch(toy(), Ints{2}, {.rounding = {8, 8}}, b);  // leaves values that the next must not show
  pack_batch(toy(), Ints{1}, {.rounding = {8, 8}}, b);
  EXPECT_EQ(b.tokens, 8);
  EXPECT_EQ(b.real_tokens(), 2);
  EXPECT_EQ(b.input_ids, (Ints{101, 102, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(b.position_ids, (Ints{0, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(b.sample_ids, Ints(8, 0));
  EXPECT_EQ(b.longest_row, 2);
}

TEST(PackBatch, IsAsLargeAsAnotherRanksBatch) {
  PackedBatch b;
  pack_batch(toy(), Ints{1}, {.rounding = {4, 4}, .least_tokens = 6}, b);
  EXPECT_EQ(b.tokens, 8);
  EXPECT_EQ(b.input_ids, (Ints{101, 102, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(b.all_input_ids.empty());
  pack_all_input_ids(toy(), std::vector<Ints>{{1}, {0, 0}, {2}}, b);
  EXPECT_EQ(b.all_input_ids, (Ints{101, 102, 0,   0, 0,   0, 0, 0, 101, 7, 102, 101, 7, 102, 0, 0,  //
                                   101, 8,   102, 9, 102, 0, 0, 0}));
  message_of(ErrorCode::kInternal, [&] { pack_all_input_ids(toy(), std::vector<Ints>{{1}, {2, 2}}, b); });
}

TEST(PackBatch, ReusesItsMemory) {
  const auto data = toy();
  PackedBatch b;
  pack_batch(data, Ints{0, 1, 2}, {.rounding = {16, 16}}, b);
  const auto* ids = b.input_ids.data();
  const auto* rows = b.cu_seqlens.data();
  for (int i = 0; i < 3; ++i) pack_batch(data, Ints{i}, {.rounding = {16, 16}}, b);
  EXPECT_EQ(b.input_ids.data(), ids);
  EXPECT_EQ(b.cu_seqlens.data(), rows);
}

TEST(PackBatch, RefusesWhatIsOutside) {
  PackedBatch b;
  message_of(ErrorCode::kUsage, [&] { pack_batch(toy(), Ints{3}, {}, b); });
  message_of(ErrorCode::kUsage, [&] { pack_batch(toy(), Ints{-1}, {}, b); });
  message_of(ErrorCode::kUsage, [&] { pack_batch(toy(), Ints{0}, {.rounding = {0, 0}}, b); });
}

TEST(Prefetcher, KeepsTheOrder) {
  int made = 0;
  Prefetcher prefetcher([&](PackedBatch& b) {
    b.rows = made;
    return made++ < 100;
  });
  for (int i = 0; i < 100; ++i) {
    const PackedBatch* b = prefetcher.next();
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->rows, i);
  }
  EXPECT_EQ(prefetcher.next(), nullptr);
  EXPECT_EQ(prefetcher.next(), nullptr);
}

TEST(Prefetcher, LeavesTheBatchAtHandAloneAndUsesThreeSlots) {
  std::atomic<int> made{0};
  std::vector<const PackedBatch*> seen;
  Prefetcher prefetcher([&](PackedBatch& b) {
    b.rows = made++;
    return true;
  });
  for (int i = 0; i < 9; ++i) {
    const PackedBatch* b = prefetcher.next();
    while (made < i + 3) std::this_thread::yield();  // it works ahead by two slots and no further
    EXPECT_EQ(b->rows, i);
    seen.push_back(b);
  }
  EXPECT_EQ(seen[0], seen[3]);
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_LE(made, 11);
}

TEST(Prefetcher, ThrowsOnAfterTheBatchesBefore) {
  int made = 0;
  Prefetcher prefetcher([&](PackedBatch&) -> bool {
    if (made++ == 2) fail(ErrorCode::kInvalidData, "third");
    return true;
  });
  EXPECT_NE(prefetcher.next(), nullptr);
  EXPECT_NE(prefetcher.next(), nullptr);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(message_of(ErrorCode::kInvalidData, [&] { prefetcher.next(); }), "third");
}

TEST(Prefetcher, StopsWithBatchesLeft) {
  for (int taken = 0; taken < 5; ++taken) {
    Prefetcher prefetcher([](PackedBatch&) { return true; });
    for (int i = 0; i < taken; ++i) prefetcher.next();
  }
}

TEST(PartOfBatch, IsTheBatchOfThoseSamplesWithTheNumbersOfItsRows) {
  TokenizedDataset data;
  data.input_ids = {5, 6, 7, 8, 9, 10, 11, 12, 13};
  data.type_ids.assign(9, 0);
  data.begins = {0, 2, 3, 5, 6, 8, 9};
  data.first_rows = {0, 2, 4, 6};
  data.tensors.floats("labels") = {0.5f, 1.5f, 2.5f};
  data.tensors.append(
      {.name = "prompt_length", .width = 2, .values = std::vector<int32_t>{1, 2, 3, 4, 5, 6}});
  const TokenRounding rounding{.least = 4, .most = 4};
  PackedBatch whole, part, wanted;
  pack_batch(data, std::vector<int32_t>{2, 0, 1}, {rounding, 7, 0}, whole);
  part_of_batch(whole, 1, 2, rounding, part);
  pack_batch(data, std::vector<int32_t>{0, 1}, {rounding, 8, 0}, wanted);
  EXPECT_EQ(part.rows, 4);
  EXPECT_EQ(part.tokens, wanted.tokens);
  EXPECT_EQ(part.longest_row, wanted.longest_row);
  EXPECT_EQ(part.input_ids, wanted.input_ids);
  EXPECT_EQ(part.position_ids, wanted.position_ids);
  EXPECT_EQ(part.sample_ids, wanted.sample_ids);
  EXPECT_EQ(part.cu_seqlens, wanted.cu_seqlens);
  EXPECT_EQ(part.cls_index, wanted.cls_index);
  EXPECT_EQ(part.samples, wanted.samples);
  EXPECT_EQ(std::as_const(part.tensors).floats("labels"), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(std::as_const(part.tensors).ints("prompt_length"), (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(std::as_const(part.tensors).ints(kFirstRows), (std::vector<int32_t>{0, 2, 4}));
}

}  // namespace
}  // namespace lathe
