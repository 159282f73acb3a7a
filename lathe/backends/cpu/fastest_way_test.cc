#include "lathe/backends/cpu/isa/fastest_way.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace lathe::cpu {
namespace {

constexpr int kWays = 4;

// Work whose time is prescribed, with a clock of its own.
struct Turns {
  FastestWay<kWays> fastest;
  std::array<uint64_t, kWays> cost;
  std::mt19937 random{7};
  double spread = 0;  // a turn takes up to this much more or less
  uint64_t time = 0;

  /// How often each way was taken.
  std::array<int, kWays> take(int turns) {
    std::array<int, kWays> taken{};
    std::uniform_real_distribution<double> noise(1 - spread, 1 + spread);
    for (int i = 0; i < turns; ++i)
      fastest.turn([this] { return time; },
                   [&](int way) {
                     ++taken[static_cast<size_t>(way)];
                     time += static_cast<uint64_t>(static_cast<double>(cost[static_cast<size_t>(way)]) *
                                                   noise(random));
                   });
    return taken;
  }
};

constexpr int kPeriod = FastestWay<kWays>::kPeriod;
// Enough turns for kLead trials of each way, however the trials of the others went.
constexpr int kSettle = kPeriod * FastestWay<kWays>::kLead * kWays * kWays;
// All turns use the fast way, except those that try another one; there is one of these per period.
constexpr int kTurns = 100 * kPeriod, kUsed = kTurns - 100;

TEST(FastestWay, IsFoundWhicheverItIs) {
  for (size_t best = 0; best < kWays; ++best) {
    Turns turns{{}, {2000, 2000, 2000, 2000}};
    turns.cost[best] = 1000;
    turns.take(kSettle);
    EXPECT_EQ(turns.take(kTurns)[best], kUsed) << best;
  }
}

TEST(FastestWay, ChangesWithWhatTheCoreCanDo) {
  Turns turns{{}, {1000, 1100, 1200, 1300}};
  turns.take(100'000);
  turns.cost = {1300, 1200, 1100, 1000};
  turns.take(kSettle);
  EXPECT_EQ(turns.take(kTurns)[3], kUsed);
}

TEST(FastestWay, IsFoundThoughTurnsDiffer) {
  Turns turns{{}, {1200, 1200, 1000, 1200}};
  turns.spread = .3;
  EXPECT_GT(turns.take(100'000)[2], 75'000);
}

TEST(FastestWay, EqualWaysAreAllTheSame) {
  Turns turns{{}, {1000, 1000, 1000, 1000}};
  EXPECT_EQ(turns.take(kTurns)[0], kUsed);  // a way that is not faster does not take over
}

}  // namespace
}  // namespace lathe::cpu
