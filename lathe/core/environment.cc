#include "lathe/core/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <regex>
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

std::string expand_variables(const std::string& text) {
  static const std::regex kVariable(R"(\$(?:(\w+)|\{([^}]*)\}))");
  std::string out;
  size_t at = 0;
  for (std::sregex_iterator found(text.begin(), text.end(), kVariable), end; found != end; ++found) {
    const std::string name = (*found)[1].str() + (*found)[2].str();
    const char* value = std::getenv(name.c_str());
    const auto begins = static_cast<size_t>(found->position());
    out += text.substr(at, begins - at) + (value != nullptr ? value : found->str());
    at = begins + static_cast<size_t>(found->length());
  }
  return out + text.substr(at);
}

}  // namespace lathe
