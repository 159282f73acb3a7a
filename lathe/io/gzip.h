#pragma once
#include <cstdint>
#include <string>

#include "lathe/io/file_system.h"

namespace lathe {

/// The most bytes of a file of data, unpacked.
inline constexpr uint64_t kDataFileBytes = uint64_t{4} << 30;
/// The most that gzip data may unpack to, in multiples of its own size: texts come to 20, tables that repeat
/// one row to 100, a bomb to 1000.  kSmallFileBytes are free.
inline constexpr uint64_t kMostUnpackedTimes = 200;

/// The most that this number of packed bytes may unpack to for a reader who has use for limit_bytes.
uint64_t unpacked_limit(uint64_t packed_bytes, uint64_t limit_bytes);

/// The whole content of a file; of a gzip file (known by its first two bytes, whatever its name) the unpacked
/// content.  limit_bytes: what the caller has use for, packed and unpacked.  Throws as bounded_read;
/// kInvalidData naming the file and the place when the gzip data is cut short, damaged, followed by something
/// else, or unpacks to more than limit_bytes or kMostUnpackedTimes.
std::string read_text(FileSystem& fs, const std::string& path, uint64_t limit_bytes);

}  // namespace lathe
