#include "lathe/ops/norms/head_norm.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"

namespace lathe::op {
namespace {

std::string normalized(int64_t columns, int64_t q_weights, int64_t k_weights, int64_t heads,
                       int64_t kv_heads) {
  Program p;
  const Value qkv = p.input("qkv", {DType::f32, {5, columns}}), q = p.input("q", {DType::f32, {q_weights}}),
              k = p.input("k", {DType::f32, {k_weights}});
  try {
    lathe::head_norm(qkv, q, k, heads, kv_heads, 1e-6);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape);
    return error.what();
  }
}

TEST(HeadNorm, NeedsWeightsOfAHead) {
  EXPECT_EQ(normalized(24, 3, 3, 4, 2), "");
  EXPECT_EQ(normalized(24, 4, 4, 4, 2), "head_norm: found weights of 4 columns, expected 3, those of a head");
  EXPECT_EQ(normalized(24, 3, 4, 4, 2), "head_norm: k_weight has D = 4, but D was bound to 3");
  EXPECT_EQ(normalized(25, 3, 3, 4, 2),
            "head_norm: qkv has 25 columns, expected a multiple of 8: 4 + 2 · 2 heads");
  EXPECT_EQ(normalized(24, 3, 3, 3, 2),
            "head_norm: found 3 heads of q and 2 of k and v, expected a multiple of the latter");
}

}  // namespace
}  // namespace lathe::op
