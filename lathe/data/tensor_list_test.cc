#include "lathe/data/tensor_list.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

using Ints = std::vector<int32_t>;

TEST(TensorList, ValuesStayWhereTheyAreWhenOthersCome) {
  TensorList list;
  std::vector<int32_t>& first = list.ints("0");
  first = {7};
  for (int i = 1; i < 100; ++i) list.ints(std::to_string(i)) = {i};
  EXPECT_EQ(&first, &list.ints("0"));
  EXPECT_EQ(first, Ints{7});
}

TEST(TensorList, OfANameThereIsOneType) {
  TensorList list;
  list.ints("labels") = {1, 2};
  list.floats("labels", 2) = {0.5f, 1};
  EXPECT_TRUE(std::as_const(list).ints("labels").empty());
  EXPECT_EQ(list.find("labels")->width, 2);
  list.truncate(0, 0);
  EXPECT_EQ(list.find("labels"), nullptr);
}

}  // namespace
}  // namespace lathe
