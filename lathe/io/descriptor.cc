#include "lathe/io/descriptor.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lathe/io/file_system.h"

namespace lathe::posix {
namespace {

namespace stdfs = std::filesystem;

std::string reason_of(int error) { return std::generic_category().message(error); }

/// Whether what is short on a disk is not its bytes.  Some have no such number.
bool lacks_inodes(const std::string& path) {
  struct statvfs info {};
  return statvfs(nearest_existing(path).c_str(), &info) == 0 && info.f_files > 0 && info.f_favail == 0;
}

/// What the user can do about it.
std::string_view way_out(int error, const std::string& path) {
  if (error == ENOSPC && lacks_inodes(path))
    return "; no more files fit on that disk (df -i): remove some; what was there before is whole";
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check the permissions or choose another place";
    case EISDIR:
      return "; name a file";
    case ENOSPC:
    case EDQUOT:
      return "; make room on that disk: what was there before is whole";
    default:
      return "";
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

std::string nearest_existing(std::string path) {
  std::error_code ignored;
  while (!stdfs::exists(path, ignored)) {
    const std::string above = parent_folder(path);
    if (above == path) return above;
    path = above;
  }
  return path;
}

Status failure(std::string_view what, const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Status(code, fmt::format("{}: cannot {}: {}{}", path, what, reason_of(error), way_out(error, path)));
}

}  // namespace lathe::posix
