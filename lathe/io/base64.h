#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

/// Bytes as base64 (RFC 4648, with padding).
std::string to_base64(std::span<const std::byte> bytes);
/// The bytes of a base64 text (RFC 4648, with padding); nothing if the text is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lathe
