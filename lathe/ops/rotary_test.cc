#include "lathe/ops/rotary.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"

namespace lathe::op {
namespace {

/// The error of turning heads of qkv [5, columns] with so many frequencies; empty: none.
std::string turned(int64_t columns, int64_t heads, int64_t kv_heads, size_t frequencies) {
  Program p;
  const Value qkv = p.input("qkv", {DType::f32, {5, columns}}), at = p.input("at", {DType::i32, {5}});
  try {
    lathe::rotary(qkv, at, heads, kv_heads, Numbers(frequencies, 0.5));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape);
    return error.what();
  }
}

TEST(Rotary, NeedsWholeHeadsOfPairs) {
  EXPECT_EQ(turned(24, 2, 0, 2), "");
  EXPECT_EQ(turned(24, 2, 2, 2), "");
  EXPECT_EQ(turned(24, 4, 1, 2), "");
  EXPECT_EQ(turned(24, 4, 3, 2),
            "rotary: found 4 heads of q and 3 of k and v, expected a multiple of the latter");
  EXPECT_EQ(turned(26, 2, 0, 2), "rotary: qkv has 26 columns, expected a multiple of 6: 2 + 2 · 2 heads");
  EXPECT_EQ(turned(24, 2, 0, 3),
            "rotary: found 3 frequencies for heads of 4 columns, expected one for two columns");
  EXPECT_EQ(turned(24, 2, 0, 0),
            "rotary: found 0 frequencies for heads of 4 columns, expected one for two columns");
  EXPECT_EQ(turned(18, 2, 0, 1),
            "rotary: found 1 frequencies for heads of 3 columns, expected one for two columns");
}

TEST(Rotary, FrequenciesAreDefaultOnesOfTransformers) {
  // 1 / 10000 ** (torch.arange(0, 8, 2) / 8), in f32
  const Numbers found = rotary_frequencies(8, 1e4);
  ASSERT_EQ(found.size(), 4u);
  const double wanted[] = {1, 0.1, 0.01, 0.001};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i], static_cast<float>(wanted[i])) << i;
}

TEST(Rotary, NodesSayTheirFrequencies) {
  Program p;
  const Value qkv = p.input("qkv", {DType::f32, {5, 12}}), at = p.input("at", {DType::i32, {5}});
  p.output("y", lathe::rotary(qkv, at, 1, 1, {1, 0.5}, 1.25));
  EXPECT_NE(p.dump().find("factor=1.25 frequencies=[1, 0.5] heads=1 inverse=false kv_heads=1"),
            std::string::npos)
      << p.dump();
}

}  // namespace
}  // namespace lathe::op
