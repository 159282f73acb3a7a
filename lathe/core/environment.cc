#include "lathe/core/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
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
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::string out;
  size_t closing = 0;  // the first brace from here on; known ones are not looked for again
  for (size_t at = 0; at < text.size();) {
    size_t name = at + 1, end = name;  // of a variable's name
    const bool braced = text[at] == '$' && name < text.size() && text[name] == '{';
    if (braced) {
      ++name;
      if (closing < name) closing = std::min(text.find('}', name), text.size());
      end = closing;
    } else if (text[at] == '$') {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    const bool is_variable = braced ? end < text.size() : end > name;
    const size_t next = is_variable ? end + braced : at + 1;
    const char* value = is_variable ? std::getenv(text.substr(name, end - name).c_str()) : nullptr;
    if (value != nullptr)
      out += value;
    else
      out.append(text, at, next - at);
    at = next;
  }
  return out;
}

}  // namespace lathe
