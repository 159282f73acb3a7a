#include "lathe/backends/cpu/call_memory.h"

#include <gtest/gtest.h>

#include "lathe/ops/functional.h"

namespace lathe::cpu {
namespace {

// Only addresses: nothing is read.
std::span<const std::byte> at(size_t begin_MB, size_t MB) {
  return {reinterpret_cast<const std::byte*>((1000 + begin_MB) * 1'000'000), MB * 1'000'000};
}

TEST(Meet, FindsAByteThatIsInBoth) {
  EXPECT_TRUE(meet({at(0, 2)}, {at(1, 2)}));
  EXPECT_TRUE(meet({at(1, 2)}, {at(0, 2)}));
  EXPECT_TRUE(meet({at(0, 9)}, {at(3, 1)}));
  EXPECT_TRUE(meet({at(3, 1)}, {at(0, 9)}));
  EXPECT_TRUE(meet({at(0, 1), at(5, 1)}, {at(8, 1), at(5, 1)}));
  EXPECT_FALSE(meet({at(0, 2), at(5, 1)}, {at(2, 3), at(6, 1)}));  // ends where the other one begins
  EXPECT_FALSE(meet({at(0, 2)}, {}));
  EXPECT_FALSE(meet({at(0, 2)}, {at(1, 0)}));
  EXPECT_FALSE(meet({at(1, 0)}, {at(0, 2)}));
}

TEST(ColdMemory, IsWhatFewerThan64MBWereTouchedSinceIsNot) {
  const std::vector<Touched> calls = {{at(0, 1)}, {at(10, 40), at(50, 23)}, {at(0, 1)}};
  EXPECT_FALSE(is_cold(calls, 2, at(0, 1)));
  const std::vector<Touched> more = {{at(0, 1)}, {at(10, 40), at(50, 24)}, {at(0, 1)}};
  EXPECT_TRUE(is_cold(more, 2, at(0, 1)));
}

TEST(ColdMemory, TheListGoesRound) {
  const std::vector<Touched> calls = {{at(0, 1)}, {at(10, 70)}, {at(0, 1)}};
  EXPECT_FALSE(is_cold(calls, 0, at(0, 1)));  // the last call of the run before touched it
  EXPECT_TRUE(is_cold(calls, 2, at(0, 1)));
}

TEST(ColdMemory, TheLargerPartDecides) {
  const auto cold = [](const Touched& last) {
    return is_cold(std::vector<Touched>{{at(20, 70)}, last, {at(0, 8)}}, 2, at(0, 8));
  };
  EXPECT_TRUE(cold({at(8, 1)}));  // begins where the other one ends
  EXPECT_TRUE(cold({at(5, 10)}));
  EXPECT_FALSE(cold({at(4, 10)}));
  EXPECT_TRUE(cold({at(0, 3)}));
  EXPECT_TRUE(cold({at(3, 2)}));  // from its middle
  EXPECT_FALSE(cold({at(1, 2), at(5, 2)}));
  EXPECT_TRUE(cold({at(3, 2), at(3, 2), at(2, 2)}));  // what is touched twice counts once
}

TEST(ColdMemory, WhatNoOtherCallTouchesIsJudgedByTheWholeList) {
  EXPECT_TRUE(is_cold(std::vector<Touched>{{at(0, 1)}, {at(10, 64)}}, 0, at(0, 1)));
  EXPECT_FALSE(is_cold(std::vector<Touched>{{at(0, 1)}, {at(10, 63)}}, 0, at(0, 1)));
  EXPECT_FALSE(is_cold(std::vector<Touched>{{at(0, 100)}}, 0, at(0, 100)));  // nothing else runs
}

TEST(Untouched, IsWhatLiesInNoOperand) {
  const std::vector<Touched> calls = {{at(0, 4), at(20, 4)}, {at(10, 2)}, {at(30, 5)}};
  const Touched left = untouched(calls, at(2, 30));
  ASSERT_EQ(left.size(), 3u);
  for (const auto& [part, wanted] :
       {std::pair{left[0], at(4, 6)}, {left[1], at(12, 8)}, {left[2], at(24, 6)}}) {
    EXPECT_EQ(part.data(), wanted.data());
    EXPECT_EQ(part.size(), wanted.size());
  }
  EXPECT_TRUE(untouched(calls, at(20, 4)).empty());
}

/// A chain of 256 bytes a value, in which each node reads and writes 512.
TEST(UntouchedSince, CountsWhatTheNodesBeforeTouch) {
  Program p;
  Value x = p.input("x", {DType::f32, {64}});
  for (int i = 0; i < 4; ++i) x = relu(x);
  EXPECT_EQ(untouched_since(3, p, 0), 3);
  EXPECT_EQ(untouched_since(3, p, 511), 3);
  EXPECT_EQ(untouched_since(3, p, 512), 2);
  EXPECT_EQ(untouched_since(3, p, 1535), 1);
  EXPECT_EQ(untouched_since(3, p, 10'000), 0);
  EXPECT_EQ(untouched_since(0, p, 10'000), 0);
}

}  // namespace
}  // namespace lathe::cpu
