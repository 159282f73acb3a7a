#include "lathe/core/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace lathe {

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const auto below = [&](std::string home) {
    while (home.ends_with('/')) home.pop_back();
    home += path.substr(1);
    return home.empty() ? "/" : home;
  };
  if (const char* home = std::getenv("HOME"); home != nullptr) return below(home);
  passwd entry = {}, *found = nullptr;
  std::vector<char> texts(1 << 14);
  getpwuid_r(getuid(), &entry, texts.data(), texts.size(), &found);
  return found == nullptr ? path : below(found->pw_dir);
}

}  // namespace lathe
