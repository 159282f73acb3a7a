#include "lathe/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include "lathe/core/ceil_div.h"

namespace lathe::op {
namespace {

TEST(RowsOfAChunk, FollowFromTheShapes) {
  EXPECT_EQ(rows_of_a_chunk(614, 30522, 768), 614);
  EXPECT_EQ(rows_of_a_chunk(2458, 30522, 768), 1232);
  EXPECT_EQ(rows_of_a_chunk(614, 250002, 768), 208);
  EXPECT_EQ(rows_of_a_chunk(150, 517, 8), 64);
  EXPECT_EQ(rows_of_a_chunk(0, 517, 8), 1);
}

TEST(RowsOfAChunk, HaveTheirMost) {
  for (const int64_t m : {1, 15, 100, 5000})
    for (const int64_t v : {2, 30522, 250002, 1 << 20})
      for (const int64_t c : {1, 32, 768, 4096}) {
        const int64_t rows = rows_of_a_chunk(m, v, c);
        EXPECT_LE(rows, 8 * c);
        EXPECT_LE(rows * v, std::max<int64_t>(1 << 26, 128 * v));
        EXPECT_LE(ceil_div(m, rows), ceil_div(m, std::min(8 * c, std::max<int64_t>((1 << 26) / v, 128))));
      }
}

}  // namespace
}  // namespace lathe::op
