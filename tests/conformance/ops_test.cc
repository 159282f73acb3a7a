// What `lathe-ops test` and `lathe-ops grad` check, as tests.
#include "lathe/ops/ops.h"

#include <gtest/gtest.h>

#include "lathe/backends/conformance.h"
#include "lathe/backends/register.h"
#include "tests/device_under_test.h"

namespace lathe::ops_test {
namespace {

class Conformance : public testing::TestWithParam<std::string> {};

TEST_P(Conformance, EveryImplementationOfEveryOpIsWithinItsBound) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam(), {2});
  int cases = 0;
  conformance_test(*backend, {}, [&](const ConformanceResult& result) {
    ++cases;
    EXPECT_TRUE(result.passed) << result.id << ": " << result.detail;
  });
  EXPECT_GT(cases, 250);
}

INSTANTIATE_TEST_SUITE_P(Devices, Conformance, devices_under_test(), [](const auto& i) { return i.param; });

TEST(Gradients, EveryRuleAgreesWithFiniteDifferences) {
  int cases = 0;
  conformance_grad({}, [&](const ConformanceResult& result) {
    ++cases;
    EXPECT_TRUE(result.passed) << result.id << ": " << result.detail;
  });
  EXPECT_GT(cases, 80);
}

TEST(Ops, AreDeclaredWhole) {
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(op->gradient) << op->name << " needs a gradient or not_differentiable";
    EXPECT_TRUE(op->reference) << op->name;
    EXPECT_TRUE(op->cost) << op->name;
    ASSERT_TRUE(op->cases) << op->name;
    EXPECT_FALSE(op->cases().empty()) << op->name;
    EXPECT_EQ(find_op(op->name), op);
  }
}

}  // namespace
}  // namespace lathe::ops_test
