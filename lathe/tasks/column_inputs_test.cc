#include "lathe/tasks/column_inputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe {
namespace {

template <typename T>
std::vector<T> values(ColumnInputs& inputs, const std::string& name, int64_t size) {
  const auto bytes = inputs.find(name, size);
  if (!bytes) return {};
  const auto* begin = reinterpret_cast<const T*>(bytes->data());
  return {begin, begin + bytes->size() / sizeof(T)};
}

TEST(ColumnInputs, AreMadeOfWhereSamplesBegin) {
  const std::vector<int32_t> first_rows = {0, 3, 6};
  ColumnInputs inputs;
  inputs.set(first_rows, 2);
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(values<int32_t>(inputs, "column_0", 2), (Ints{0, 3}));
  EXPECT_EQ(values<int32_t>(inputs, "column_2", 2), (Ints{2, 5}));
  EXPECT_EQ(values<int32_t>(inputs, kPositiveRows, 2), (Ints{1, 4}));
  EXPECT_EQ(values<int32_t>(inputs, kPositiveRowsOfAll, 2), (Ints{13, 16}));  // after 2 · 6 rows
  EXPECT_EQ(values<int32_t>(inputs, kSampleNumbers, 2), (Ints{0, 1}));
  EXPECT_EQ(values<int32_t>(inputs, kSampleNumbersOfAll, 2), (Ints{4, 5}));  // after 2 · 2 samples
  EXPECT_EQ(values<int32_t>(inputs, "labels", 2), Ints{});
}

TEST(ColumnInputs, AnchorsOfAllRanksAreNoCandidates) {
  const std::vector<int32_t> first_rows = {0, 2, 4};
  ColumnInputs inputs;
  inputs.set(first_rows, 0);
  const float no = -INFINITY;
  EXPECT_EQ(values<float>(inputs, kAnchorBias, 4), (std::vector<float>{no, 0, no, 0}));
  EXPECT_EQ(values<float>(inputs, kAnchorBias, 8), (std::vector<float>{no, 0, no, 0, no, 0, no, 0}));
  inputs.set({}, 0);
  EXPECT_TRUE(values<float>(inputs, kAnchorBias, 4).empty());
}

}  // namespace
}  // namespace lathe
