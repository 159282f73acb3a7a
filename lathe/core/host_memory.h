#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lathe {

/// Memory of this machine in bytes, or what its cgroups grant; empty if the platform does not tell.
struct HostMemory {
  std::optional<uint64_t> total;
  std::optional<uint64_t> free;  ///< what can be had now, caches of files given up
  /// What can be had before the system ends processes that take too much memory: also swap; on macOS, which
  /// makes swap as it goes, all there is.
  std::optional<uint64_t> reachable;
};
HostMemory host_memory();

/// The same from the texts of /proc/meminfo, /proc/self/cgroup and /proc/self/mountinfo; `root` is put before
/// the paths of cgroups (for tests).
HostMemory host_memory(const std::string& meminfo, const std::string& cgroups, const std::string& mounts,
                       const std::string& root = "");

/// The most memory of this process that was resident since it started, or since the last
/// reset_peak_resident, in bytes.
std::optional<uint64_t> peak_resident_bytes();
/// Where the platform can: Linux.
void reset_peak_resident();
/// Memory of this process that is resident now, in bytes.
std::optional<uint64_t> resident_bytes();

}  // namespace lathe
