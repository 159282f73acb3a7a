#include "lathe/ops/attention.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lathe::op {
namespace {

TEST(AttendedPairs, AreThoseWithinTheWindow) {
  for (const bool causal : {false, true})
    for (const int64_t tokens : {1, 2, 7, 30})
      for (const int64_t window : {0, 1, 3, 6, 7, 29, 30, 40}) {
        int64_t pairs = 0;
        for (int64_t query = 0; query < tokens; ++query)
          for (int64_t key = 0; key < tokens; ++key)
            pairs += (window == 0 || std::abs(query - key) <= window) && (!causal || key <= query);
        EXPECT_EQ(attended_pairs(static_cast<double>(tokens), window, causal), pairs)
            << tokens << ", " << window << ", " << causal;
      }
}

}  // namespace
}  // namespace lathe::op
