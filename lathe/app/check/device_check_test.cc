#include "lathe/app/check/device_check.h"

#include <gtest/gtest.h>

#include "lathe/backends/register.h"

namespace lathe {
namespace {

TEST(DeviceCheck, TrainingOnTheCpuIsTheReferences) {
  const auto cpu = open_device("cpu", {2});
  const TraceVerdict verdict = check_training(*cpu, 5);
  EXPECT_EQ(verdict.updates, 5);
  EXPECT_TRUE(verdict.good) << verdict.loss << " " << verdict.grad_norm;
}

TEST(DeviceCheck, ADeviceThatIsNoneIsRefused) {
  const auto nobody = [](const auto&) { FAIL() << "nothing is to be said of it"; };
  EXPECT_THROW(check_device("toaster", nobody, nobody), Error);
}

}  // namespace
}  // namespace lathe
