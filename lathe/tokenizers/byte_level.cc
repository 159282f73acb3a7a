#include "lathe/tokenizers/byte_level.h"

#include <array>

#include "lathe/text/unicode.h"
#include "lathe/tokenizers/split_pattern.h"

namespace lathe::byte_level {
namespace {

constexpr uint32_t kBlank = 0x120;  // of the byte 0x20
constexpr uint32_t kBeyond = 256 + 68;

constexpr bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The byte of each code point of the alphabet below kBeyond; -1 for those that are not in it.
constexpr std::array<int16_t, kBeyond> kByteOf = [] {
  std::array<int16_t, kBeyond> out{};
  uint32_t next = 256;
  for (int16_t& byte : out) byte = -1;
  for (uint32_t byte = 0; byte < 256; ++byte)
    out[is_printable(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return out;
}();

bool is_blank(uint32_t cp) { return cp == kBlank || (unicode::info(cp).flags & unicode::kSpace) != 0; }

}  // namespace

std::optional<std::string> bytes_of(std::string_view token) {
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const uint32_t cp = unicode::decode(token, &at);
    if (cp >= kBeyond || kByteOf[cp] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kByteOf[cp]));
  }
  return out;
}

uint32_t written_size(uint8_t byte) { return byte < 0x80 && is_printable(byte) ? 1 : 2; }

void split(std::string_view text, const std::function<void(size_t, size_t)>& word) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = match_end(SplitPattern::kGpt2, text, at);
    word(at, end);
    at = end;
  }
}

Blanks blanks_of(std::string_view token) {
  Blanks out;
  size_t at = 0;
  while (at < token.size() && is_blank(unicode::decode(token, &at))) ++out.leading;
  at = token.size();
  while (at > 0 && is_blank(unicode::decode_back(token, &at))) ++out.trailing;
  return out;
}

}  // namespace lathe::byte_level
