#include "lathe/core/cpu_limits.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "lathe/core/cgroups.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lathe {
namespace {

// quota / period of one cgroup folder; 0 where it sets none.
double quota_in(const std::string& folder, bool v2) {
  std::istringstream text(v2 ? system_text(folder + "/cpu.max")
                             : system_text(folder + "/cpu.cfs_quota_us") + " " +
                                   system_text(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;  // "max 100000", -1 or no file
  return quota / period;
}

// The numbers of a list as Linux writes it, "0-7,16"; read as far as it is a list.
std::vector<int> listed(const std::string& list) {
  constexpr int kMostCpus = 1 << 16;
  std::vector<int> numbers;
  std::istringstream text(list);
  for (int first = 0, last = 0; text >> first; text.ignore()) {
    last = first;
    if (text.peek() == '-' && !(text.ignore() >> last)) break;
    for (int i = std::max(first, 0); i <= std::min(last, kMostCpus); ++i) numbers.push_back(i);
  }
  return numbers;
}

// How fast a core is compared with the others: 1024 for the machine's fastest; 0 if Linux does not tell.
int capacity_of(int cpu, const std::string& root) {
  std::istringstream text(
      system_text(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity"));
  int capacity = 0;
  return text >> capacity ? capacity : 0;
}

// Cores that threads may be given where there is no affinity mask.
int unmasked_cores() {
#if defined(__APPLE__)
  int cores = 0;
  size_t bytes = sizeof cores;
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &bytes, nullptr, 0) == 0 && cores > 0) return cores;
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::vector<int> fast_cores(const std::vector<int>& cpus, const std::string& root) {
  const std::vector<int> wide = listed(system_text(root + "/sys/devices/cpu_core/cpus"));
  int most = 0;
  for (const int cpu : cpus) most = std::max(most, capacity_of(cpu, root));
  std::vector<int> fast;
  for (const int cpu : cpus)
    if (most > 0 ? 2 * capacity_of(cpu, root) >= most
                 : std::find(wide.begin(), wide.end(), cpu) != wide.end())
      fast.push_back(cpu);
  return fast.empty() ? cpus : fast;
}

double cgroup_cpus(const std::string& cgroups, const std::string& mounts, const std::string& root) {
  double least = 0;
  for (const CgroupFolder& folder : cgroup_folders("cpu", cgroups, mounts, root)) {
    const double quota = quota_in(folder.path, folder.v2);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

std::optional<double> stolen_seconds(const std::string& root) {
  std::istringstream text(system_text(root + "/proc/stat"));  // proc(5): cpu user nice system idle iowait …
  std::string cpu;
  double ticks = 0;
  text >> cpu;
  for (int field = 0; field < 8; ++field) text >> ticks;  // … irq softirq steal
  if (!text || cpu != "cpu") return {};
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

#if defined(__linux__)

namespace {

// The logical CPUs of a physical core as the kernel lists them; "" where it does not.
std::string siblings_of(int cpu) {
  return system_text("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  std::vector<std::string> seen;  // one list of siblings per core
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string siblings = siblings_of(cpu);
    if (!siblings.empty() && std::find(seen.begin(), seen.end(), siblings) != seen.end()) continue;
    seen.push_back(siblings);
    cores.push_back(cpu);
  }
  return cores;
}

std::vector<int> cores_of_cpus(const std::vector<int>& cores) {
  std::vector<int> all;
  for (const int core : cores) {
    std::vector<int> cpus = listed(siblings_of(core));
    cpus.push_back(core);
    for (const int cpu : cpus) {
      if (static_cast<size_t>(cpu) >= all.size()) all.resize(static_cast<size_t>(cpu) + 1, -1);
      all[static_cast<size_t>(cpu)] = core;
    }
  }
  return all;
}

int current_cpu() { return sched_getcpu(); }

bool restrict_to_cpus(const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(cpu, &mask);
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

bool pin_to_cpu(int cpu) { return restrict_to_cpus({cpu}); }
bool pin_to_cpu(std::thread& thread, int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  return pthread_setaffinity_np(thread.native_handle(), sizeof mask, &mask) == 0;
}

#else

std::vector<int> allowed_cores() { return {}; }
std::vector<int> cores_of_cpus(const std::vector<int>&) { return {}; }
int current_cpu() { return -1; }
bool restrict_to_cpus(const std::vector<int>&) { return false; }
bool pin_to_cpu(int) { return false; }
bool pin_to_cpu(std::thread&, int) { return false; }

#endif

namespace {

// A thread for each of those cores, as far as the quota goes.
int threads_on(const std::vector<int>& cores) {
  const int threads = cores.empty() ? unmasked_cores() : static_cast<int>(cores.size());
  const double quota = cgroup_cpus(system_text("/proc/self/cgroup"), system_text("/proc/self/mountinfo"));
  return std::max(quota > 0 ? std::min(threads, static_cast<int>(std::ceil(quota))) : threads, 1);
}

}  // namespace

std::vector<int> compute_cores() { return fast_cores(allowed_cores()); }
int default_threads() { return threads_on(compute_cores()); }
int most_awake_threads() { return threads_on(allowed_cores()); }

}  // namespace lathe
