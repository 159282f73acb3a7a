// Compares with stored batches of sentence-transformers; tools/make_no_duplicates_golden.py writes them.
#include "lathe/data/retrieval/no_duplicates.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"
#include "lathe/data/retrieval/metrics_golden_testing.h"

namespace lathe {
namespace {

using Ints = std::vector<std::vector<int32_t>>;

TEST(NoDuplicates, StoredBatches) {
  size_t repeated = 0, missing = 0;
  for (const auto& c : stored_metrics("no_duplicates")) {
    const auto found = no_duplicates_batches(
        c["texts"].get<Ints>(),
        {.batch_size = c["batch_size"], .drop_last = c["drop_last"], .seed = c["seed"]});
    EXPECT_EQ(found.batches, c["batches"].get<Ints>()) << c.dump();
    repeated += found.repeated > 0, missing += found.missing > 0;
  }
  EXPECT_GT(repeated, 0u);
  EXPECT_GT(missing, 0u);
}

TEST(NoDuplicates, EqualTextsAnywhereHaveOneNumber) {
  const std::vector<std::vector<std::string>> columns{{"a", "b", "a"}, {"c", "a", "c"}};
  EXPECT_EQ(text_numbers(columns), (Ints{{0, 2}, {1, 0}, {0, 2}}));
  const std::vector<std::vector<std::string>> odd{{"a", "b"}, {"c"}};
  expect_error([&] { text_numbers(odd); }, ErrorCode::kUsage, {"columns of 2 and 1 texts"});
}

TEST(NoDuplicates, OneTextForAllGivesBatchesOfOne) {
  const Ints same(3, {0});
  const auto found = no_duplicates_batches(same, {.batch_size = 2});
  EXPECT_EQ(found.batches.size(), 3u);
  const auto none = no_duplicates_batches(same, {.batch_size = 2, .drop_last = true});
  EXPECT_TRUE(none.batches.empty());
  EXPECT_EQ(none.missing, 1);
  EXPECT_TRUE(no_duplicates_batches({}, {}).batches.empty());
  expect_error([&] { no_duplicates_batches(same, {.batch_size = 0}); }, ErrorCode::kUsage, {"batch size 0"});
}

}  // namespace
}  // namespace lathe
