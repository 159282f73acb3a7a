#include "lathe/core/cpu_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace lathe {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// quota / period of one cgroup folder; 0 where it sets none.
double quota_in(const std::string& folder, bool v2) {
  std::istringstream text(v2 ? text_of(folder + "/cpu.max")
                             : text_of(folder + "/cpu.cfs_quota_us") + " " +
                                   text_of(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return 0;  // "max 100000", -1 or no file
  return quota / period;
}

// The least quota from `path` below the mount point up to the mount point itself.
double quota_up(const std::string& mount_point, std::string path, bool v2) {
  double least = 0;
  while (true) {
    const double quota = quota_in(mount_point + path, v2);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

struct Mount {
  std::string root, point;
  bool v2;
};

// Mounts of the cpu controller: lines "ID PARENT DEV ROOT POINT OPTIONS … - TYPE SOURCE SUPEROPTIONS".
std::vector<Mount> cpu_mounts(const std::string& mounts) {
  std::vector<Mount> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream left(line), right(line.substr(dash + 3));
    std::string skip, type, source, options;
    Mount mount;
    left >> skip >> skip >> skip >> mount.root >> mount.point;
    right >> type >> source >> options;
    mount.v2 = type == "cgroup2";
    if (mount.v2 || (type == "cgroup" && lists_cpu(options))) found.push_back(mount);
  }
  return found;
}

}  // namespace

double cgroup_cpus(const std::string& cgroups, const std::string& mounts, const std::string& root) {
  double least = 0;
  std::istringstream lines(cgroups);
  for (std::string line;
       std::getline(lines, line);) {  // "ID:CONTROLLERS:PATH"; v2 has id 0 and no controllers
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists_cpu(controllers)) continue;
    for (const Mount& mount : cpu_mounts(mounts)) {
      if (mount.v2 != v2) continue;
      // What is mounted may be a cgroup below the top: paths are relative to it, and outside of it unseen.
      std::string path = line.substr(second + 1);
      const std::string above = mount.root == "/" ? "" : mount.root;
      path = path.compare(0, above.size(), above) == 0 ? path.substr(above.size()) : "";
      if (path == "/") path.clear();
      const double quota = quota_up(root + mount.point, path, v2);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    }
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
        text_of("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    if (!siblings.empty() && std::find(seen.begin(), seen.end(), siblings) != seen.end()) continue;
    seen.push_back(siblings);
    cores.push_back(cpu);
  }
  return cores;
}

bool pin_to_cpu(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  return sched_setaffinity(0, sizeof mask, &mask) == 0;
}

#else

std::vector<int> allowed_cores() { return {}; }
bool pin_to_cpu(int) { return false; }

#endif

int default_threads() {
  int threads = static_cast<int>(allowed_cores().size());
  if (threads == 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  const double quota = cgroup_cpus(text_of("/proc/self/cgroup"), text_of("/proc/self/mountinfo"));
  if (quota > 0) threads = std::min(threads, static_cast<int>(std::ceil(quota)));
  return std::max(threads, 1);
}

}  // namespace lathe
