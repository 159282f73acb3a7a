#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/io/descriptor.h"

namespace lathe {

/// The name of standard input where a file is asked for.
inline constexpr std::string_view kStandardInput = "-";

/// The bytes of a file, a pipe or standard input, one piece after the other.
class ByteSource {
 public:
  /// stopped: asked while nothing comes; true ends the wait with kInterrupted.  Errors: kNotFound; kIo, also
  /// for a folder.
  /// writer_wait_s: how long a named pipe may be without anyone who has opened it to write.
  explicit ByteSource(const std::string& path, std::function<bool()> stopped = {}, double writer_wait_s = 10);

  /// Appends at least one and at most `most` bytes; returns false at the end.  Errors: kIo, also
  /// for a device, which has none, and for a named pipe that nobody writes to; kInterrupted.
  bool read(std::string& to, size_t most);
  /// For messages.
  const std::string& name() const { return name_; }
  /// Of a file; 0: not known.
  uint64_t bytes() const { return bytes_; }

 private:
  std::string name_;
  std::function<bool()> stopped_;
  posix::Descriptor fd_;
  uint64_t bytes_ = 0;
  double writer_wait_s_;
  bool has_writer_;  ///< or needs none
};

}  // namespace lathe
