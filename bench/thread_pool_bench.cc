// What a job costs beside its work: microseconds of one that does nothing, and of one whose eight items a
// thread do nothing.  thread_pool_bench [threads] [seconds]: JSON lines.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/thread_pool.h"

using namespace lathe;

namespace {

constexpr int kJobs = 1000;

/// The least and the median of the means over kJobs jobs.
template <typename F>
void report(const char* name, ThreadPool& pool, double seconds, F job) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (us.size() < 5 || Clock::now() < end) {
    const auto begin = Clock::now();
    for (int i = 0; i < kJobs; ++i) job();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kJobs);
  }
  std::sort(us.begin(), us.end());
  fmt::print(
      "{{\"bench\":\"thread_pool\",\"job\":\"{}\",\"threads\":{},\"best_us\":{:.2f},\"median_us\":{:.2f}}}\n",
      name, pool.size(), us.front(), us[us.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) try {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 0);
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  report("empty", pool, seconds, [&] { pool.run([](int, int) {}); });
  report("dealt", pool, seconds, [&] {
    pool.deal(8 * pool.size());
    pool.run([&](int part, int) {
      while (pool.next_item(part) >= 0) {
      }
    });
  });
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 2;
}
