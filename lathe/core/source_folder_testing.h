#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// For tests: the folder of the sources, without a slash at the end.  The build defines it in a file of its
/// own.
const char* source_folder();

/// A file or folder of the sources, such as "tests/golden/scaler/trace.json".
inline std::string source_path(std::string_view name) {
  return std::string(source_folder()) + "/" + std::string(name);
}

}  // namespace lathe
