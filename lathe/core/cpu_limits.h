#pragma once
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lathe {

/// Logical CPUs that the affinity mask of the calling thread allows, one per physical core (hyperthreads left
/// out: the lowest number of each core), ascending.  Empty if the platform does not tell (macOS).
std::vector<int> allowed_cores();

/// Those of them that compute unless more threads are asked for: without the slow cores of hybrid processors.
std::vector<int> compute_cores();

/// Of `cpus`, those that are no efficiency cores: of ARM's, at least half of the largest cpu_capacity among
/// them; of Intel's, those that the kernel lists as cpu_core, which compute twice as wide as the others.  All
/// threads get equal shares, so the others would wait for a slower core.  All if Linux does not tell kinds
/// apart, or `cpus` has only one kind.  `root` is put before every path that is read (for tests).
std::vector<int> fast_cores(const std::vector<int>& cpus, const std::string& root = "");

/// result[number of a logical CPU] is the one of `cores` to which it belongs, −1: none.  Numbers past the end
/// belong to none; empty if the platform does not tell.
std::vector<int> cores_of_cpus(const std::vector<int>& cores);

/// The logical CPU on which the calling thread runs at this moment; −1 if the platform does not tell.
int current_cpu();

/// CPUs' worth of time that the cgroups of a process and their parents grant, v1 and v2; 0 if unlimited.
/// `cgroups` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo; `root` is put before
/// every path that is read (for tests).
double cgroup_cpus(const std::string& cgroups, const std::string& mounts, const std::string& root = "");

/// Seconds, summed over the logical CPUs since this virtual machine started, in which they had work and its
/// host ran others; nothing if the platform does not tell.  `root` as above.
std::optional<double> stolen_seconds(const std::string& root = "");

/// More than any machine has cores: a larger number is a typing error.
inline constexpr int kMostThreads = 4096;

/// Threads that compute: one per compute core (macOS: per performance core), at most the cgroup quota rounded
/// up; at least 1.
int default_threads();

/// Threads that can be awake at once without disturbing each other: one per allowed core, slow ones too
/// (macOS: default_threads()), also at most the quota; at least 1.
int most_awake_threads();

/// The calling thread, and those that it starts, run only on these logical CPUs; false if that is not
/// possible.
bool restrict_to_cpus(const std::vector<int>& cpus);

/// Ties the calling thread, or another one, to one logical CPU; false if that is not possible.
bool pin_to_cpu(int cpu);
bool pin_to_cpu(std::thread& thread, int cpu);

}  // namespace lathe
