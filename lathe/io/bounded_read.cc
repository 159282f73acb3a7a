#include "lathe/io/bounded_read.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "lathe/io/descriptor.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kChunkBytes = size_t{1} << 16;

class Reading {
 public:
  Reading(const std::string& path, const ReadLimits& limits, int fd)
      : path_(path), limits_(limits), fd_(fd), deadline_(Clock::now() + seconds(limits.writer_wait_s)) {}

  Result<std::string> run() {
    if (fstat(fd_, &info_) != 0) return posix::failure("read", path_, errno);
    if (S_ISDIR(info_.st_mode)) return posix::failure("read", path_, EISDIR);
    const uint64_t size = S_ISREG(info_.st_mode) ? static_cast<uint64_t>(info_.st_size) : 0;
    if (size > limits_.bytes) return too_much(fmt::format("{} bytes", size));
    content_.reserve(size);
    std::vector<char> buffer(kChunkBytes);
    for (;;) {  // to the end, not to st_size: pipes and /proc have none
      const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {  // somebody has the pipe open, and may take their time
        (void)wait_ms(-1);
        continue;
      }
      if (n < 0) return posix::failure("read", path_, errno);
      if (n == 0 && !may_begin_later()) break;
      if (n > 0)
        if (const Status status = take({buffer.data(), static_cast<size_t>(n)}); !status.ok()) return status;
    }
    if (nobody_writes_) return nobody_writes(path_, limits_.writer_wait_s);
    return std::move(content_);
  }

 private:
  static Clock::duration seconds(double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  }

  Status take(std::string_view bytes) {
    if (Status status = check_has_end(path_, fd_); !status.ok()) return status;
    const uint64_t most = S_ISREG(info_.st_mode) ? limits_.bytes : std::min(limits_.bytes, kMostPipeBytes);
    if (bytes.size() > most - content_.size())
      return too_much(S_ISREG(info_.st_mode) ? "a file that grows meanwhile" : "a pipe that goes on", most);
    content_ += bytes;
    return {};
  }

  Status too_much(const std::string& found) const { return too_much(found, limits_.bytes); }
  Status too_much(const std::string& found, uint64_t most) const {
    return {ErrorCode::kInvalidData,
            fmt::format("{}: found {}, expected at most {} bytes here; check that it is "
                        "the file that is meant, or split it",
                        path_, found, most)};
  }

  /// What poll says.
  short wait_ms(int ms) const {
    pollfd wanted{fd_, POLLIN, 0};
    return ::poll(&wanted, 1, ms) > 0 ? wanted.revents : short{0};
  }

  /// Nothing came: the end, unless it is a named pipe that nobody has opened for writing yet.
  bool may_begin_later() {
    if (!S_ISFIFO(info_.st_mode) || !content_.empty()) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    const short seen = wait_ms(static_cast<int>(std::max<int64_t>(0, left)));
    if ((seen & POLLIN) != 0) return true;
    if (seen != 0) return false;  // POLLHUP: somebody came, wrote nothing and went
    nobody_writes_ = Clock::now() >= deadline_;
    return !nobody_writes_;
  }

  const std::string& path_;
  const ReadLimits& limits_;
  const int fd_;
  const Clock::time_point deadline_;
  struct stat info_ {};
  std::string content_;
  bool nobody_writes_ = false;
};

}  // namespace

Status nobody_writes(const std::string& path, double seconds) {
  return {ErrorCode::kIo, fmt::format("{}: found a pipe that nobody wrote to for {:g} s; start what writes "
                                      "to it first, or name a file",
                                      path, seconds)};
}

Status check_has_end(const std::string& path, int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return posix::failure("read", path, errno);
  if (!S_ISBLK(info.st_mode) && (!S_ISCHR(info.st_mode) || isatty(descriptor) != 0)) return {};
  return {ErrorCode::kIo, path + ": found a device, expected a file or a pipe: a device has no end"};
}

Result<std::string> bounded_read(const std::string& path, const ReadLimits& limits) {
  // O_NONBLOCK: to open a named pipe would wait until somebody opens its other end.
  const posix::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return posix::failure("open", path, errno);
  return Reading(path, limits, fd.get()).run();
}

}  // namespace lathe
