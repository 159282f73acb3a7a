#include "lathe/data/numpy_random.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(NumpyGenerator, PermutationsAreThoseOfNumpy) {  // of numpy 2.4.6
  EXPECT_EQ(NumpyGenerator(42).permutation(10), (std::vector<int64_t>{5, 6, 0, 7, 3, 2, 4, 9, 1, 8}));
  EXPECT_EQ(NumpyGenerator(0).permutation(10), (std::vector<int64_t>{4, 6, 2, 7, 3, 5, 9, 0, 8, 1}));
  EXPECT_EQ(NumpyGenerator((uint64_t{1} << 40) + 7).permutation(10),
            (std::vector<int64_t>{6, 2, 8, 7, 9, 3, 4, 1, 5, 0}));
  const auto many = NumpyGenerator(42).permutation(1000);
  EXPECT_EQ(std::vector<int64_t>(many.begin(), many.begin() + 5),
            (std::vector<int64_t>{978, 933, 859, 916, 127}));
  EXPECT_TRUE(NumpyGenerator(42).permutation(0).empty());
}

}  // namespace
}  // namespace lathe
