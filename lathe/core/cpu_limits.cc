#include "lathe/core/cpu_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "lathe/core/cgroups.h"

#if defined(__linux__)
#include <sched.h>
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

}  // namespace

double cgroup_cpus(const std::string& cgroups, const std::string& mounts, const std::string& root) {
  double least = 0;
  for (const CgroupFolder& folder : cgroup_folders("cpu", cgroups, mounts, root)) {
    const double quota = quota_in(folder.path, folder.v2);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  }
  return least;
}

#if defined(__linux__)

std::vector<int> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  std::vector<std::string> seen;  // one list of siblings per core
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string siblings =
        system_text("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    if (!siblings.empty() && std::find(seen.begin(), seen.end(), siblings) != seen.end()) continue;
    seen.push_back(siblings);
    cores.push_back(cpu);
  }
  return cores;
}

bool restrict_to_cpus(const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(cpu, &mask);
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

bool pin_to_cpu(int cpu) { return restrict_to_cpus({cpu}); }

#else

std::vector<int> allowed_cores() { return {}; }
bool restrict_to_cpus(const std::vector<int>&) { return false; }
bool pin_to_cpu(int) { return false; }

#endif

int default_threads() {
  int threads = static_cast<int>(allowed_cores().size());
  if (threads == 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  const double quota = cgroup_cpus(system_text("/proc/self/cgroup"), system_text("/proc/self/mountinfo"));
  if (quota > 0) threads = std::min(threads, static_cast<int>(std::ceil(quota)));
  return std::max(threads, 1);
}

}  // namespace lathe
