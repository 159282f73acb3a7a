#include "lathe/io/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lathe/io/bounded_read.h"

namespace lathe {

// O_NONBLOCK: to open a named pipe would wait until somebody opens its other end.
ByteSource::ByteSource(const std::string& path, std::function<bool()> stopped, double writer_wait_s)
    : name_(path == kStandardInput ? "standard input" : path),
      stopped_(std::move(stopped)),
      fd_(path == kStandardInput ? dup(STDIN_FILENO)
                                 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      writer_wait_s_(writer_wait_s) {
  struct stat info {};
  if (fd_.get() < 0 || fstat(fd_.get(), &info) != 0) posix::failure("open", name_, errno).check();
  if (S_ISDIR(info.st_mode)) posix::failure("read", name_, EISDIR).check();
  has_writer_ = path == kStandardInput || !S_ISFIFO(info.st_mode);
  if (S_ISREG(info.st_mode)) bytes_ = static_cast<uint64_t>(info.st_size);
}

bool ByteSource::read(std::string& to, size_t most) {
  const size_t before = to.size();
  to.resize(before + most);
  for (;;) {
    // A signal ends a poll, but not a read.
    pollfd wanted{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, has_writer_ ? -1 : static_cast<int>(writer_wait_s_ * 1000));
    if (stopped_ && stopped_()) fail(ErrorCode::kInterrupted, "{}: stopped before its end", name_);
    const ssize_t count = ready < 0 ? -1 : ::read(fd_.get(), to.data() + before, most);
    if (count < 0 && errno == EAGAIN) has_writer_ = true;  // who takes time
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) posix::failure("read", name_, errno).check();
    if (count == 0 && ready == 0) nobody_writes(name_, writer_wait_s_).check();
    if (count > 0) check_has_end(name_, fd_.get()).check();
    has_writer_ = true;
    to.resize(before + static_cast<size_t>(count));
    return count > 0;
  }
}

}  // namespace lathe
