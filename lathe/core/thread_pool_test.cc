#include "lathe/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/core/sanitized.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

TEST(ThreadPool, EveryPartRunsOnceAndTheCallerIsPartZero) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    std::vector<int> hits(static_cast<size_t>(threads));
    std::thread::id zero;
    pool.run([&](int part, int parts) {
      EXPECT_EQ(parts, threads);
      ++hits[static_cast<size_t>(part)];
      if (part == 0) zero = std::this_thread::get_id();
    });
    EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(threads), 1));
    EXPECT_EQ(zero, std::this_thread::get_id());
  }
}

TEST(ThreadPool, DealsEveryItemOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (long total : {0L, 1L, 7L, 1000L}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(total));
      pool.deal(total);
      pool.run([&](int part, int) {
        for (long i; (i = pool.next_item(part)) >= 0;) ++hits[static_cast<size_t>(i)];
      });
      for (const auto& hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

TEST(ThreadPool, OthersTakeTheItemsOfAThreadThatIsHeldUp) {
  ThreadPool pool(2);
  constexpr long kItems = 100;
  std::vector<int> by(kItems, -1);
  std::atomic<long> done{0};
  std::atomic<bool> held{false};
  pool.deal(kItems);
  pool.run([&](int part, int) {
    while (part == 1 && !held) std::this_thread::yield();
    for (long i; (i = pool.next_item(part)) >= 0;) {
      by[static_cast<size_t>(i)] = part;
      if (part == 0) held = true;
      if (part == 0)  // held up with its first item until all others are done
        while (done < kItems - 1) std::this_thread::yield();
      ++done;
    }
  });
  EXPECT_EQ(std::count(by.begin(), by.end(), 0), 1);
  EXPECT_EQ(by[0], 0) << "its own share comes first";
  EXPECT_EQ(by[kItems - 1], 1);
}

// Plain memory written by one job is read by the next on other threads: a race or a lost wake-up shows
// (under TSan the first at once).
TEST(ThreadPool, ManyJobsSeeWhatTheJobBeforeWrote) {
  ThreadPool pool(3);
  std::vector<long> cells(3, 0);
  for (long round = 0; round < 20000; ++round) {
    pool.run([&](int part, int parts) {
      const size_t own = static_cast<size_t>(part), next = static_cast<size_t>((part + 1) % parts);
      const size_t at = round % 2 == 0 ? own : next;  // each cell changes hands in every round
      cells[at] += cells[at] == round ? 1 : 1000000;
    });
  }
  EXPECT_EQ(cells, std::vector<long>(3, 20000));
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int part, int) {
      if (part == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the caller sleeps as well
      sum += part + 1;
    });
  }
  EXPECT_EQ(sum, 60);
}

TEST(ThreadPool, PoolsComeAndGoUnused) {
  for (int i = 0; i < 200; ++i) ThreadPool pool(3);
}

TEST(ThreadPool, RefusesMoreThreadsThanAnyMachineHasCores) {
  try {
    ThreadPool pool(kMostThreads + 1);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("found 4097, expected at most 4096"), std::string::npos)
        << error.what();
  }
}

#if defined(__linux__) && !LATHE_SANITIZED  // they take address space of their own accord
constexpr rlim_t kRoom = rlim_t{256} << 20;

// In a process of its own: its address space has room for the stacks of a few threads only.
void limit_address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
}

// qemu takes the limit from a program that it emulates and does not hold to it.
[[noreturn]] void reserve_more_than_fits() {
  limit_address_space();
  _exit(mmap(nullptr, 2 * kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 3 : 0);
}

[[noreturn]] void start_more_threads_than_fit() {
  limit_address_space();
  try {
    ThreadPool pool(1000);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(error.code() == ErrorCode::kMemory ? 3 : 4);
  }
  _exit(0);
}

TEST(ThreadPool, JoinsThoseThatStartedWhereTheSystemGivesNoMore) {
  bool limits_hold = false;
  EXPECT_EXIT(
      reserve_more_than_fits(),
      [&](int status) {
        limits_hold = testing::ExitedWithCode(3)(status);
        return limits_hold || testing::ExitedWithCode(0)(status);
      },
      "");
  if (!limits_hold) GTEST_SKIP() << "this system holds no process to a limit of its address space";
  EXPECT_EXIT(
      start_more_threads_than_fit(), testing::ExitedWithCode(3),
      "needs 1000 threads, has [0-9]+: the system gives no more threads: .+; `ulimit -u` and the pids "
      "of the cgroup limit them; --threads takes fewer");
}
#endif

TEST(ThreadPool, SharesAreEvenAndCoverAll) {
  for (long total : {0L, 1L, 7L, 768L})
    for (int parts : {1, 2, 3, 64}) {
      long next = 0;
      for (int part = 0; part < parts; ++part) {
        const Share s = share(total, part, parts);
        EXPECT_EQ(s.begin, next);
        EXPECT_LE(s.end - s.begin, (total + parts - 1) / parts);
        next = s.end;
      }
      EXPECT_EQ(next, total);
    }
}

TEST(CpuLimits, DefaultIsWithinTheMachine) {
  const int threads = default_threads();
  EXPECT_GE(threads, 1);
  EXPECT_LE(threads, std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_EQ(ThreadPool().size(), threads);
}

#if defined(__linux__)
TEST(CpuLimits, AffinityMaskIsHonoured) {
  const std::vector<int> cores = compute_cores();
  ASSERT_FALSE(cores.empty());
  int seen = 0;
  std::thread([&] {  // the mask is only this thread's
    ASSERT_TRUE(pin_to_cpu(cores.back()));
    EXPECT_EQ(compute_cores(), std::vector<int>{cores.back()});
    seen = default_threads();
  })
      .join();
  EXPECT_EQ(seen, 1);
}

TEST(ThreadPool, WorkersLeaveTheCallersCoreAlone) {
  const std::vector<int> cores = compute_cores();
  if (cores.size() < 2 || default_threads() != static_cast<int>(cores.size()))
    GTEST_SKIP() << "needs two cores, and a thread for each";
  for (const int core : {cores.front(), cores.back()}) {
    // The system may move a thread between two looks, but hardly every time.
    bool apart = false;
    for (int attempt = 0; attempt < 5 && !apart; ++attempt)
      std::thread([&] {
        ASSERT_TRUE(pin_to_cpu(core));
        ASSERT_TRUE(restrict_to_cpus(cores));  // the thread stays where it is
        ThreadPool pool;
        std::vector<int> seen(cores.size());
        pool.run([&](int part, int) { seen[static_cast<size_t>(part)] = sched_getcpu(); });
        apart = std::set<int>(seen.begin(), seen.end()).size() == cores.size();
      }).join();
    EXPECT_TRUE(apart) << "from core " << core;
  }
}

TEST(ThreadPool, WorkersLeaveTheCoreToWhichTheCallerMoves) {
  const std::vector<int> cores = compute_cores();
  if (cores.size() < 2 || default_threads() != static_cast<int>(cores.size()))
    GTEST_SKIP() << "needs two cores, and a thread for each";
  std::thread([&] {
    ThreadPool pool;
    for (const int core : {cores.back(), cores.front(), cores.back()}) {
      ASSERT_TRUE(pin_to_cpu(core));
      std::vector<int> seen(cores.size());
      pool.run([&](int part, int) { seen[static_cast<size_t>(part)] = sched_getcpu(); });
      EXPECT_EQ(seen[0], core);
      EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), cores.size());
    }
  }).join();
}
#endif

// Files of a system, below a folder of their own.
class SystemFiles : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  TestFolder root_;
};

using StolenTime = SystemFiles;

TEST_F(StolenTime, IsTheEighthFigureOfAllCpus) {
  EXPECT_FALSE(stolen_seconds(root_.path()));
  write("/proc/stat", "cpu  100 2 30 4000 5 0 6 250 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  EXPECT_EQ(stolen_seconds(root_.path()), 250. / static_cast<double>(sysconf(_SC_CLK_TCK)));
  for (const char* text :
       {"", "cpu  100 2 30 4000\n", "cpu0 1 2 3 4 5 6 7 8 9 10\n", "cpu  a b c d e f g h\n"}) {
    write("/proc/stat", text);
    EXPECT_FALSE(stolen_seconds(root_.path())) << text;
  }
}

class FastCores : public SystemFiles {
 protected:
  using Cpus = std::vector<int>;
  Cpus of(const Cpus& cpus) { return fast_cores(cpus, root_.path()); }
  void capacity(int cpu, const std::string& text) {
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", text);
  }
};

TEST_F(FastCores, AllWhereTheSystemDoesNotTellKindsApart) { EXPECT_EQ(of({0, 2, 5}), (Cpus{0, 2, 5})); }

TEST_F(FastCores, IntelsEfficiencyCoresAreLeftOut) {
  write("/sys/devices/cpu_core/cpus", "0-3,8\n");
  write("/sys/devices/cpu_atom/cpus", "4-7,9\n");
  EXPECT_EQ(of({0, 2, 4, 5, 7, 8, 9}), (Cpus{0, 2, 8}));
  EXPECT_EQ(of({5, 7}), (Cpus{5, 7}));  // the mask leaves no other
}

TEST_F(FastCores, ArmsBelowHalfOfTheFastestAreLeftOut) {
  for (const int cpu : {0, 1, 2}) capacity(cpu, "250\n");
  for (const int cpu : {3, 4, 5}) capacity(cpu, "760\n");
  capacity(6, "1024\n");
  EXPECT_EQ(of({0, 1, 2, 3, 4, 5, 6}), (Cpus{3, 4, 5, 6}));
  EXPECT_EQ(of({0, 1}), (Cpus{0, 1}));
}

TEST_F(FastCores, TextThatIsNoListOrNumberIsIgnored) {
  for (const char* text :
       {"", "\n", "none\n", "-3\n", "4-\n", "7-4\n", "99999999999999\n", "3-99999999999999"}) {
    write("/sys/devices/cpu_core/cpus", text);
    capacity(1, text[0] == '-' ? "x\n" : "\n");
    EXPECT_EQ(of({0, 1, 2, 5}), (Cpus{0, 1, 2, 5})) << text;  // 5: a range read too wide has not all
  }
}

class Cgroups : public SystemFiles {
 protected:
  double cpus(const std::string& cgroups, const std::string& mounts) {
    return cgroup_cpus(cgroups, mounts, root_.path());
  }
};

constexpr char kCpuV2[] = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr char kCpuV1[] =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(Cgroups, SecondVersionTakesTheLeastOfAllParents) {
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus("0::/a/b/c\n", kCpuV2), 1.5);
  EXPECT_EQ(cpus("0::/other\n", kCpuV2), 0);
  EXPECT_EQ(cpus("0::/\n", kCpuV2), 0);
}

TEST_F(Cgroups, FirstVersionReadsQuotaAndPeriod) {
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/free/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/free/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus("4:cpu,cpuacct:/job\n3:cpuset:/\n", kCpuV1), 0.5);
  EXPECT_EQ(cpus("4:cpu,cpuacct:/free\n", kCpuV1), 0);
  EXPECT_EQ(cpus("3:cpuset:/job\n", kCpuV1), 0);
}

TEST_F(Cgroups, ContainerSeesItsOwnGroupAtTheMountPoint) {
  const std::string mounts = "30 20 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus("0::/docker/x\n", mounts), 2);
  EXPECT_EQ(cpus("0::/elsewhere\n", mounts), 2);
}

TEST_F(Cgroups, TextThatIsNoneOfThisIsIgnored) { EXPECT_EQ(cpus("x\n::\n", "nothing\n - \n"), 0); }

}  // namespace
}  // namespace lathe
