#pragma once
#include <cstdint>
#include <string>

#include "lathe/io/file_system.h"

namespace lathe {

/// The whole content of a file; of a gzip file (known by its first two bytes, whatever its name) the unpacked
/// content.  Throws kNotFound, kIo; kInvalidData naming the file and the place when the gzip data is cut
/// short, damaged, followed by something else, or more than `limit_bytes` when unpacked.
std::string read_text(FileSystem& fs, const std::string& path, uint64_t limit_bytes = uint64_t{4} << 30);

}  // namespace lathe
