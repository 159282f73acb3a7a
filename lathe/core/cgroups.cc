#include "lathe/core/cgroups.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace lathe {
namespace {

bool lists(const std::string& controllers, const std::string& controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == controller) return true;
  return false;
}

struct Mount {
  std::string root, point;
  bool v2;
};

// Mounts of the controller: lines "ID PARENT DEV ROOT POINT OPTIONS … - TYPE SOURCE SUPEROPTIONS".
std::vector<Mount> mounts_of(const std::string& controller, const std::string& mounts) {
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
    if (mount.v2 || (type == "cgroup" && lists(options, controller))) found.push_back(mount);
  }
  return found;
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const std::string& controller, const std::string& cgroups,
                                         const std::string& mounts, const std::string& root) {
  std::vector<CgroupFolder> folders;
  std::istringstream lines(cgroups);
  for (std::string line;
       std::getline(lines, line);) {  // "ID:CONTROLLERS:PATH"; v2 has id 0 and no controllers
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists(controllers, controller)) continue;
    for (const Mount& mount : mounts_of(controller, mounts)) {
      if (mount.v2 != v2) continue;
      // What is mounted may be a cgroup below the top: paths are relative to it, and outside of it unseen.
      std::string path = line.substr(second + 1);
      const std::string above = mount.root == "/" ? "" : mount.root;
      path = path.starts_with(above) ? path.substr(above.size()) : "";
      if (path == "/") path.clear();
      for (size_t slash = 0; slash != std::string::npos;) {
        folders.push_back({root + mount.point + path, v2});
        slash = path.rfind('/');
        if (slash != std::string::npos) path.resize(slash);
      }
    }
  }
  return folders;
}

std::string system_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace lathe
