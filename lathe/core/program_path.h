#pragma once
#include <string>
#include <vector>

namespace lathe {

/// The file of the running program, links resolved; empty if the system does not tell.
std::string program_path();
/// The folder of that file; empty in the same case.
std::string program_folder();
/// The paths where a part that is loaded when needed (a shared library of Lathe) may be, in the order of
/// search: in $LATHE_PARTS, next to the program, one folder up (the examples of a build), where
/// `cmake --install` puts it relative to its own programs, and in the folders that were added.
std::vector<std::string> part_places(const std::string& file);
/// A program that was linked through find_package(lathe) adds that of the package before main, in a source
/// that the package brings.  Returns true.
bool add_part_folder(const std::string& folder);

}  // namespace lathe
