#pragma once
#include <string>

namespace lathe {

/// Where this user's file of a name is kept between runs: $XDG_CACHE_HOME or ~/.cache, then lathe/NAME; empty
/// if there is no such folder.
std::string cache_path(const std::string& name);
/// The file's content; empty if it cannot be read.
std::string read_cache(const std::string& path);
/// Replaces the file whole or not at all.  A run does not fail without a cache: errors are ignored.
void write_cache(const std::string& path, const std::string& text);

}  // namespace lathe
