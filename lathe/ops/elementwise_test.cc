#include "lathe/ops/elementwise.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"

namespace lathe::op {
namespace {

TEST(Gated, NeedsAnActivationThatItKnows) {
  Program p;
  const Value x = p.input("x", {DType::f32, {3, 8}});
  for (const char* name : {"gelu", "silu", "gelu_tanh"})
    EXPECT_EQ(lathe::gated(x, name).type().shape, (Shape{3, 4})) << name;
  try {
    lathe::gated(x, "swish");
    FAIL() << "swish is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape);
    EXPECT_STREQ(error.what(), "gated: found activation swish, expected gelu, silu or gelu_tanh");
  }
}

}  // namespace
}  // namespace lathe::op
