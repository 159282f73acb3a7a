#pragma once
#include <string>
#include <vector>

namespace lathe {

/// Logical CPUs that the affinity mask of the calling thread allows, one per physical core (hyperthreads left
/// out: the lowest number of each core), ascending.  Empty where the platform does not tell (macOS).
std::vector<int> allowed_cores();

/// CPUs' worth of time that the cgroups of a process and their parents grant, v1 and v2; 0 if unlimited.
/// `cgroups` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo; `root` is put before
/// every path that is read (for tests).
double cgroup_cpus(const std::string& cgroups, const std::string& mounts, const std::string& root = "");

/// Beyond what any machine has cores for: a larger number is a slip.
inline constexpr int kMostThreads = 4096;

/// Threads that compute: one per allowed core, at most the cgroup quota rounded up; at least 1.
int default_threads();

/// The calling thread, and those that it starts, run on these logical CPUs alone; false where that is not
/// possible.
bool restrict_to_cpus(const std::vector<int>& cpus);

/// Ties the calling thread to one logical CPU; false where that is not possible.
bool pin_to_cpu(int cpu);

}  // namespace lathe
