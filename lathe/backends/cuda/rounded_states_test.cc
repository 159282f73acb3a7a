#include "lathe/backends/cuda/rounded_states.h"

#include <gtest/gtest.h>

#include "lathe/ops/functional.h"
#include "lathe/ops/linear.h"

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

TEST(RoundedStates, AreOfWeightsThatAreNotInTheDtypeOfTheActivations) {
  Program p;
  const Value x = p.input("x", {DType::bf16, {4, 16}}), b = p.state("b", {DType::f32, {16}});
  const Value master = p.state("master", {DType::f32, {16, 16}});
  const Value typed = p.state("typed", {DType::bf16, {16, 16}});
  for (const Value w : {master, typed}) {
    linear(x, w, b);
    const RoundedInputs forward = rounded_inputs(p.nodes().back(), p);
    p.emit(op::linear_bwd_input, {x, w});
    const RoundedInputs backward = rounded_inputs(p.nodes().back(), p);
    EXPECT_EQ(forward.weight, w.id == master.id ? w.id : -1);
    EXPECT_EQ(backward.weight, forward.weight);
    EXPECT_EQ(forward.bias, b.id);
    EXPECT_EQ(backward.bias, -1);
  }
}

}  // namespace
}  // namespace lathe::cuda
