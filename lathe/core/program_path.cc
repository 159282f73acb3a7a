#include "lathe/core/program_path.h"

#include <filesystem>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

namespace lathe {

std::string program_path() {
#if defined(__APPLE__)
  char path[4096];
  uint32_t size = sizeof path;
  if (_NSGetExecutablePath(path, &size) != 0) return "";
#else
  const char* path = "/proc/self/exe";
#endif
  std::error_code error;
  const auto program = std::filesystem::canonical(path, error);
  return error ? "" : program.string();
}

std::string program_folder() { return std::filesystem::path(program_path()).parent_path().string(); }

std::vector<std::string> part_places(const std::string& file) {
  const std::filesystem::path folder = program_folder();
  const std::filesystem::path installed = folder / ".." / LATHE_LIBRARY_FOLDER / "lathe";
  return {(folder / file).string(), (folder / ".." / file).string(), (installed / file).string()};
}

}  // namespace lathe
