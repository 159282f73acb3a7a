#pragma once
#include <cstdlib>
#include <string>

namespace lathe {

/// The value of an environment variable; empty where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "~" and "~/x" in the home folder: $HOME, or where there is no such variable, as in services, what the
/// password database has for this user; unchanged where that knows none.  Source: Python's
/// os.path.expanduser.
std::string expand_home(const std::string& path);

/// `$NAME` and `${NAME}` become what these variables are set to; of others they stay.  Source: Python's
/// os.path.expandvars.
std::string expand_variables(const std::string& text);

}  // namespace lathe
