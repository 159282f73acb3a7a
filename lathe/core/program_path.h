#pragma once
#include <string>
#include <vector>

namespace lathe {

/// The file of the running program, links resolved; empty where the system does not tell.
std::string program_path();
/// The folder in which it lies; empty likewise.
std::string program_folder();
/// Where a part that is loaded when needed (a shared library of Lathe) may lie, in the order of search:
/// beside the program, one folder up (the examples of a build), and where `cmake --install` puts it.
std::vector<std::string> part_places(const std::string& file);

}  // namespace lathe
