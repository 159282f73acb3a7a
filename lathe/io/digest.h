#pragma once
#include <memory>
#include <string>

#include "lathe/io/file_system.h"

namespace lathe {

/// SHA-256 of bytes, 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// The same of bytes that come one part after another.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void add(std::span<const std::byte> bytes);
  /// The digest of all that was added; the next one starts again.
  std::string take_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What git names a blob of these bytes by: SHA-1 of "blob <size>\0" and the bytes, 40 digits.
std::string git_blob_hex(std::span<const std::byte> bytes);

}  // namespace lathe
