#pragma once
#include <string>
#include <vector>

namespace lathe {

/// Words quoted where a POSIX shell would read them otherwise.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace lathe
