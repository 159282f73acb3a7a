#include "lathe/core/program_path.h"

#include <algorithm>
#include <filesystem>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#else
#include <sys/auxv.h>
#include <unistd.h>
#endif

#include "lathe/core/environment.h"

namespace lathe {
namespace {

/// Made when it is first asked for: what adds to it runs before main.
std::vector<std::string>& added_folders() {
  static std::vector<std::string> folders;
  return folders;
}

}  // namespace

std::string program_path() {
#if defined(__APPLE__)
  char path[4096];
  uint32_t size = sizeof path;
  if (_NSGetExecutablePath(path, &size) != 0) return "";
#else
  const char* path = "/proc/self/exe";
  // Without /proc, as in a chroot, the name that it was started by.
  if (access(path, F_OK) != 0) path = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr) return "";
#endif
  std::error_code error;
  const auto program = std::filesystem::canonical(path, error);
  return error ? "" : program.string();
}

std::string program_folder() { return std::filesystem::path(program_path()).parent_path().string(); }

std::vector<std::string> part_places(const std::string& file) {
  const std::filesystem::path folder = program_folder();
  std::vector<std::filesystem::path> folders = {folder, folder / "..",
                                                folder / ".." / LATHE_LIBRARY_FOLDER / "lathe"};
  if (const std::string named = environment("LATHE_PARTS"); !named.empty())
    folders.insert(folders.begin(), named);
  folders.insert(folders.end(), added_folders().begin(), added_folders().end());
  std::vector<std::string> places;
  for (const std::filesystem::path& place : folders) places.push_back((place / file).string());
  return places;
}

bool add_part_folder(const std::string& folder) {
  std::vector<std::string>& folders = added_folders();
  // Each target that links Lathe brings the source.
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  return true;
}

}  // namespace lathe
