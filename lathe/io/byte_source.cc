#include "lathe/io/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lathe/io/bounded_read.h"

namespace lathe {

ByteSource::ByteSource(const std::string& path, std::function<bool()> stopped)
    : name_(path == kStandardInput ? "standard input" : path),
      stopped_(std::move(stopped)),
      fd_(path == kStandardInput ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat info {};
  if (fd_.get() < 0 || fstat(fd_.get(), &info) != 0) posix::failure("open", name_, errno).check();
  if (S_ISDIR(info.st_mode)) posix::failure("read", name_, EISDIR).check();
  if (S_ISREG(info.st_mode)) bytes_ = static_cast<uint64_t>(info.st_size);
}

bool ByteSource::read(std::string& to, size_t most) {
  const size_t before = to.size();
  to.resize(before + most);
  for (;;) {
    // A signal ends a poll, but not a read.
    pollfd wanted{fd_.get(), POLLIN, 0};
    const bool ready = ::poll(&wanted, 1, -1) > 0;
    if (stopped_ && stopped_()) fail(ErrorCode::kInterrupted, "{}: stopped before its end", name_);
    const ssize_t count = ready ? ::read(fd_.get(), to.data() + before, most) : -1;
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) posix::failure("read", name_, errno).check();
    if (count > 0) check_has_end(name_, fd_.get()).check();
    to.resize(before + static_cast<size_t>(count));
    return count > 0;
  }
}

}  // namespace lathe
