#pragma once
#include <array>
#include <span>
#include <string_view>

namespace lathe::group {

/// HMAC-SHA-256 of a message.  Source: RFC 2104.
std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view message);

/// Whether both have the same bytes.  For equal sizes the time does not reveal where they differ.
bool same_bytes(std::span<const unsigned char> a, std::span<const unsigned char> b);

}  // namespace lathe::group
