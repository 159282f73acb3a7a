#pragma once
#include <cstdint>
#include <string>

#include "lathe/core/error.h"

namespace lathe {

struct ReadLimits {
  uint64_t bytes;             ///< what the caller has use for
  double writer_wait_s = 10;  ///< how long a named pipe may be without anyone who writes to it
};

/// The most bytes that come out of a pipe: it does not say how long it is, and may have no end.
inline constexpr uint64_t kMostPipeBytes = uint64_t{1} << 30;

/// The whole content of a file, or of a pipe up to kMostPipeBytes.  Errors: kInvalidData where there is more
/// than limits.bytes, told before it is read where the file says so; kIo for a device that is neither a
/// terminal nor empty (/dev/zero has no end), for a folder, and for a named pipe that nobody writes to;
/// kNotFound.
Result<std::string> bounded_read(const std::string& path, const ReadLimits& limits);

/// kIo: a named pipe that nobody has opened to write for so long.
Status nobody_writes(const std::string& path, double seconds);

/// To be asked where bytes have come: kIo if they are of a device that is no terminal.
Status check_has_end(const std::string& path, int descriptor);

}  // namespace lathe
