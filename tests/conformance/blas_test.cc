// The device cpu with products of fp32 by a BLAS library.
#include <gtest/gtest.h>

#include <set>

#include "lathe/backends/conformance.h"
#include "lathe/backends/cpu/blas_testing.h"
#include "lathe/backends/register.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"

namespace lathe::blas_test {
namespace {

TEST(ProductsByBlas, AreWithinTheBoundsOfTheirOps) {
  const std::string file = cpu::blas_file();
  if (file.empty()) GTEST_SKIP() << cpu::kNoBlas;
  setenv("LATHE_BLAS", file.c_str(), 1);
  const auto backend = open_device("cpu", {2});
  unsetenv("LATHE_BLAS");
  EXPECT_NE(backend->info().name.find(file), std::string::npos) << backend->info().name;
  EXPECT_NE(backend->tuning().find(file), std::string::npos) << backend->tuning();
  for (const OpDef* op :
       {&op::linear, &op::linear_bwd_input, &op::linear_bwd_input_add, &op::linear_bwd_weight}) {
    int cases = 0;
    conformance_test(*backend, {std::string(op->name), ""}, [&](const ConformanceResult& result) {
      if (!result.id.starts_with(fmt::format("{} blas ", op->name))) return;
      ++cases;
      EXPECT_TRUE(result.passed) << result.id << ": " << result.detail;
      EXPECT_NE(result.id.find(" f32"), std::string::npos) << result.id;
    });
    EXPECT_GE(cases, 5) << op->name;
  }
}

}  // namespace
}  // namespace lathe::blas_test
