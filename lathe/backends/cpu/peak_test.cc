#include "lathe/backends/cpu/peak.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "lathe/backends/cpu/isa/peak/peak_kernels.h"

namespace lathe::cpu {
namespace {

TEST(Peak, LoopsCountWhatTheyDo) {
  EXPECT_EQ(kPeakPortable.f32(10), 2.0 * 32 * 10);
  EXPECT_EQ(kPeakPortable.f32(20), 2 * kPeakPortable.f32(10));
}

TEST(Peak, EveryLevelReachesSomethingAndBf16IsNotBelowF32) {
  ThreadPool pool(1);
  for (const Isa isa : available_isas()) {
    const Peak peak = measure_peak(pool, isa);
    EXPECT_GT(peak.f32, 1e6) << name_of(isa);
    EXPECT_LT(peak.f32, 1e14) << name_of(isa);  // no core does 10⁴ operations in a cycle: a loop that is gone
    EXPECT_GE(peak.bf16, peak.f32) << name_of(isa);
    EXPECT_LT(peak.bf16, 1e14) << name_of(isa);
    EXPECT_GT(peak.bf16_from_l2, 0) << name_of(isa);
  }
}

// As where two threads share a core and a third has one to itself; each thread's clock goes on by its own
// work.
TEST(Peak, CountsWhatEachThreadDoes) {
  ThreadPool pool(3);
  static thread_local double now = 0;
  const auto work = [](int part) {
    now += 1e-3;
    return part == 0 ? 1.0 : 4.0;
  };
  EXPECT_NEAR(measure_rate(pool, work, [] { return now; }), 9000, 1e-6);
}

// Where the threads of a call wait for cores, calls of a few microseconds would measure the waiting.
TEST(Peak, IsOfTheSameOrderWhereOtherWorkHasTheCores) {
  ThreadPool pool;
  const Isa isa = available_isas().back();
  std::atomic<bool> stop = false;
  std::vector<std::thread> others;
  for (int i = 0; i < pool.size(); ++i)
    others.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  const Peak beside = measure_peak(pool, isa);
  stop = true;
  for (std::thread& other : others) other.join();
  const Peak alone = measure_peak(pool, isa);
  EXPECT_GT(beside.f32, alone.f32 / 10);
  EXPECT_GT(beside.bf16, alone.bf16 / 10);
}

}  // namespace
}  // namespace lathe::cpu
