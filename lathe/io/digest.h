#pragma once
#include <string>

#include "lathe/io/file_system.h"

namespace lathe {

/// SHA-256 of bytes, 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// What git names a blob of these bytes by: SHA-1 of "blob <size>\0" and the bytes, 40 digits.
std::string git_blob_hex(std::span<const std::byte> bytes);

}  // namespace lathe
