#include "lathe/engine/memory_need.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

/// Eight samples of 28 rows and 4,096 tokens take 4 GiB, and there are 3.
MemoryShortage shortage(int64_t samples) {
  return {.kind = ProgramKind::kStep,
          .bucket = {4096, 28, 0, samples},
          .need = {.activations = 4 * kGib},
          .free = 3 * kGib,
          .device = "cpu",
          .remedy = {},
          .rounding = {1, 1},
          .need_of = [](Bucket bucket, bool recompute) {
            return static_cast<uint64_t>(bucket.tokens) * (kGib / 1024) / (recompute ? 2 : 1);
          }};
}

TEST(MemoryShortage, ABatchCountsSamplesAndNotTheirRows) {
  EXPECT_EQ(to_string(shortage(8)),
            "out of memory: training on a batch of 8 (4096 tokens) needs 4.00 GiB: 4.00 GiB for activations; "
            "cpu has 3.00 GiB free; a batch of 6 fits, with --gradient_checkpointing one of 8; more "
            "--gradient_accumulation_steps make up for a smaller batch");
  EXPECT_NE(to_string(shortage(0)).find("a batch of 28 (4096 tokens) needs 4.00 GiB"), std::string::npos);
  EXPECT_NE(to_string(shortage(0)).find("a batch of 21 fits, with"), std::string::npos);
}

TEST(MemoryShortage, WhatIsTriedHasTheRowsAndTokensOfSoManySamples) {
  MemoryShortage s = shortage(8);
  std::vector<Bucket> tried;
  s.need_of = [&](Bucket bucket, bool) {
    tried.push_back(bucket);
    return 2 * s.free;  // nothing fits
  };
  EXPECT_NE(to_string(s).find("not one such row fits"), std::string::npos);
  ASSERT_FALSE(tried.empty());
  for (const Bucket& bucket : tried) {
    EXPECT_GT(bucket.samples, 0);
    EXPECT_EQ(bucket.tokens, 512 * bucket.samples);
    EXPECT_EQ(bucket.rows, (28 * bucket.samples + 7) / 8);  // the mean, rounded up
  }
}

}  // namespace
}  // namespace lathe
