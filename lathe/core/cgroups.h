#pragma once
#include <string>
#include <vector>

namespace lathe {

/// A folder in which Linux describes a cgroup: files as of version 1 or 2.
struct CgroupFolder {
  std::string path;
  bool v2 = false;
};

/// Folders of a process for one controller ("cpu", "memory"): its cgroup, then those above it, if they
/// can be seen.  `cgroups` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo; `root`
/// is put before every path (for tests).
std::vector<CgroupFolder> cgroup_folders(const std::string& controller, const std::string& cgroups,
                                         const std::string& mounts, const std::string& root = "");

/// The content of a file, "" where there is none; also of those in /proc, whose size is not known before.
std::string system_text(const std::string& path);

}  // namespace lathe
