#pragma once
#include <fmt/core.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

/// The bytes of a data.pkl as operations and their operands, read from the front.  Errors: kInvalidData,
/// naming file and byte, where they end too early.
class PickleBytes {
 protected:
  PickleBytes(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  template <typename... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kInvalidData, "{}: data.pkl at byte {}: {}; the file is damaged: fetch or save it again",
         file_, position_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::span<const std::byte> take(uint64_t n) {
    if (n > bytes_.size() - position_) damaged("needs {} bytes, found {}", n, bytes_.size() - position_);
    const std::span<const std::byte> out = bytes_.subspan(position_, n);
    position_ += n;
    return out;
  }

  template <typename T>
  T take_number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string take_text(uint64_t n) {
    const std::span<const std::byte> bytes = take(n);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string take_line() {
    std::string line;
    for (char c; (c = static_cast<char>(take(1)[0])) != '\n';) line += c;
    return line;
  }

  /// LONG1: a little-endian two's complement number of n bytes.
  int64_t take_long(uint8_t n) {
    if (n > sizeof(int64_t))
      fail(ErrorCode::kUnsupported, "{}: data.pkl at byte {}: an integer of {} bytes, expected at most 8",
           file_, position_, n);
    uint64_t value = 0;
    const std::span<const std::byte> bytes = take(n);
    for (size_t i = 0; i < n; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    const bool negative = n > 0 && (static_cast<uint8_t>(bytes[n - 1]) & 0x80) != 0;
    if (negative && n < sizeof(int64_t)) value |= ~uint64_t{0} << (8 * n);
    return static_cast<int64_t>(value);
  }

  double take_big_endian_double() {
    uint64_t bits = 0;
    for (const std::byte b : take(sizeof(bits))) bits = bits << 8 | static_cast<uint64_t>(b);
    return std::bit_cast<double>(bits);
  }

  const std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t position_ = 0;  ///< of the next byte
};

}  // namespace lathe
