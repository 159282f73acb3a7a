#include "lathe/models/sentence/pooling_inputs.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

using Ints = std::vector<int32_t>;

TEST(PoolingInputs, WhichTokensCount) {
  const Ints bounds{0, 3, 4, 9}, prompts{2, 2, 2};
  PoolingInputs inputs;
  inputs.set(bounds, {});
  EXPECT_EQ(*inputs.find(kFirstCounted, 3), (Ints{0, 3, 4}));
  EXPECT_EQ(*inputs.find(kLastIndex, 3), (Ints{2, 3, 8}));
  inputs.set(bounds, prompts);
  EXPECT_EQ(*inputs.find(kFirstCounted, 3), (Ints{2, 3, 6})) << "the last token of a row always counts";
  EXPECT_EQ(inputs.find("input_ids", 9), nullptr);
}

TEST(PoolingInputs, VectorsOfSeveralModesSideBySide) {
  const Ints bounds{0, 3, 4, 9};
  PoolingInputs inputs;
  inputs.set(bounds, {});
  // Three rows of the first mode, then three of the second.
  EXPECT_EQ(*inputs.find(kPooledOrder, 6), (Ints{0, 3, 1, 4, 2, 5}));
}

}  // namespace
}  // namespace lathe
