#include "lathe/backends/cuda/rounded_states.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

Buffer some_memory() {
  auto owner = std::make_shared<std::byte>();
  std::byte* const data = owner.get();
  return {std::move(owner), data, 1};
}

TEST(RoundedStates, CopiesGoWithTheirStates) {
  RoundedStates states;
  Buffer first = some_memory();
  const Buffer second = some_memory();
  const std::weak_ptr<RoundedState> of_first = states.of(first), of_second = states.of(second);
  states.forget_freed();
  EXPECT_FALSE(of_first.expired());
  first = {};
  states.forget_freed();
  EXPECT_TRUE(of_first.expired());
  EXPECT_FALSE(of_second.expired());
}

}  // namespace
}  // namespace lathe::cuda
