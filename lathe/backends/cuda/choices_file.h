#pragma once
#include <string>

namespace lathe::cuda {

/// Where this user's choices of algorithms are kept between runs: $XDG_CACHE_HOME or ~/.cache, then
/// lathe/cuda_products.txt; empty if there is no such folder.
std::string choices_path();
/// The file's content; empty if it cannot be read.
std::string read_choices(const std::string& path);
/// Replaces the file whole or not at all.  A run does not fail for want of a cache: errors are left aside.
void write_choices(const std::string& path, const std::string& text);

}  // namespace lathe::cuda
