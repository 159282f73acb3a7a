#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::byte_level {

/// The bytes of a token in GPT-2's alphabet: there a byte that is no printable character is the
/// code point 256 + its rank among such bytes.  Nothing if the token has a code point outside of the
/// alphabet. Source: openai/gpt-2 encoder.py, bytes_to_unicode.
std::optional<std::string> bytes_of(std::string_view token);

/// Calls word(begin, end) for the parts of text (valid UTF-8) that GPT-2's pattern (SplitPattern::kGpt2)
/// matches; they cover it in order.
void split(std::string_view text, const std::function<void(size_t begin, size_t end)>& word);

/// Bytes, as UTF-8, of the code point that stands for a byte in the alphabet: 1 or 2.
uint32_t written_size(uint8_t byte);

/// White space, written or as the alphabet has a blank, at both ends of a token, in code points: what
/// ByteLevel's post-processor takes off the token's offsets.
struct Blanks {
  int32_t leading = 0, trailing = 0;
};
Blanks blanks_of(std::string_view token);

}  // namespace lathe::byte_level
