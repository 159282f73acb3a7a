// Every device refuses a slot that does not hold what its program reads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lathe/ops/functional.h"
#include "tests/device_under_test.h"

namespace lathe::slot_test {
namespace {

class SlotOfARun : public testing::TestWithParam<const char*> {};

TEST_P(SlotOfARun, RefusesInputsOfAnotherNumberOrSize) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam(), {.threads = 1});
  Program program;
  const Value a = program.input("a", {DType::f32, {3}}), b = program.input("b", {DType::f32, {3}});
  program.output("sum", add(a, b));
  const Selection selection = select(program, *backend);
  const MemoryPlan plan = backend->plan(program, selection);
  const Bindings bindings{{}, backend->allocate(plan.arena_bytes).value()};
  auto executable = backend->compile(program, selection, plan, bindings);
  ASSERT_TRUE(executable.ok());
  const std::vector<std::byte> bytes(16);
  const auto run = [&](std::vector<size_t> sizes) {
    Slot slot;
    for (const size_t size : sizes) slot.inputs.emplace_back(bytes.data(), size);
    Event event;
    Status status = executable.value()->run(slot, &event);
    if (status.ok()) status = executable.value()->wait(event);
    return status.ok() ? std::string() : status.message();
  };
  EXPECT_EQ(run({12, 12}), "");
  EXPECT_EQ(run({12, 8}), "input 1: found 8 bytes, expected 12");
  EXPECT_EQ(run({16, 12}), "input 0: found 16 bytes, expected 12");
  EXPECT_EQ(run({12}), "found 1 inputs, expected 2");
  EXPECT_EQ(run({12, 12, 12}), "found 3 inputs, expected 2");
  EXPECT_EQ(run({12, 12}), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, SlotOfARun, devices_under_test(),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lathe::slot_test
