#include "lathe/core/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace lathe {

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  if (const char* home = std::getenv("HOME"); home != nullptr) return home + path.substr(1);
  passwd entry = {}, *found = nullptr;
  std::vector<char> texts(1 << 14);
  getpwuid_r(getuid(), &entry, texts.data(), texts.size(), &found);
  return found == nullptr ? path : found->pw_dir + path.substr(1);
}

}  // namespace lathe
