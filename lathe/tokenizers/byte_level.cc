#include "lathe/tokenizers/byte_level.h"

#include <array>

#include "lathe/text/unicode.h"

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

enum class Kind { kLetter, kNumber, kSpace, kOther };

Kind kind_of(uint32_t cp) {
  const uint32_t flags = unicode::info(cp).flags;
  if ((flags & unicode::kLetter) != 0) return Kind::kLetter;
  if ((flags & unicode::kNumber) != 0) return Kind::kNumber;
  return (flags & unicode::kSpace) != 0 ? Kind::kSpace : Kind::kOther;
}

/// Where the run of code points of one kind that begins at `at` ends; *last: where its last one begins.
size_t run(std::string_view text, size_t at, Kind kind, size_t* last) {
  while (at < text.size()) {
    size_t next = at;
    if (kind_of(unicode::decode(text, &next)) != kind) break;
    *last = at;
    at = next;
  }
  return at;
}

/// Length of the English contraction at the front of text, 0 if there is none.
size_t contraction(std::string_view text) {
  for (const std::string_view c : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(c)) return c.size();
  return 0;
}

size_t match(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    const size_t length = contraction(text.substr(at));
    if (length > 0) return at + length;
  }
  size_t next = at, last = at;
  Kind kind = kind_of(unicode::decode(text, &next));
  if (text[at] == ' ' && next < text.size()) {
    size_t behind = next;
    const Kind following = kind_of(unicode::decode(text, &behind));
    if (following != Kind::kSpace) return run(text, next, following, &last);
  }
  const size_t end = run(text, at, kind, &last);
  // The last blank of several before a word belongs to the word.
  return kind == Kind::kSpace && end < text.size() && last > at ? last : end;
}

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

void split(std::string_view text, const std::function<void(size_t, size_t)>& word) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = match(text, at);
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
