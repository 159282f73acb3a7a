#include "lathe/core/program_path.h"

#include <filesystem>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#else
#include <sys/auxv.h>
#include <unistd.h>
#endif

namespace lathe {

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
  const std::filesystem::path installed = folder / ".." / LATHE_LIBRARY_FOLDER / "lathe";
  return {(folder / file).string(), (folder / ".." / file).string(), (installed / file).string()};
}

}  // namespace lathe
