#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "lathe/core/error.h"

namespace lathe::posix {

/// An open file; closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// The path itself or the nearest folder above it that exists.
std::string nearest_existing(std::string path);

/// "path: cannot <what>: <the system's reason>" and what the user can do about it; kNotFound or kIo.
Status failure(std::string_view what, const std::string& path, int error);

}  // namespace lathe::posix
