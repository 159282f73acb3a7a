#include "lathe/tokenizers/split_pattern.h"

#include <array>
#include <utility>

#include "lathe/text/unicode.h"

namespace lathe {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther };

Kind look_up(uint32_t cp) {
  const uint32_t flags = unicode::info(cp).flags;
  if ((flags & unicode::kLetter) != 0) return Kind::kLetter;
  if ((flags & unicode::kNumber) != 0) return Kind::kNumber;
  return (flags & unicode::kSpace) != 0 ? Kind::kSpace : Kind::kOther;
}

constexpr bool is_between(char c, char first, char last) { return c >= first && c <= last; }

constexpr std::array<Kind, 128> kAscii = [] {
  std::array<Kind, 128> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = static_cast<char>(i);
    out[i] = is_between(c, 'a', 'z') || is_between(c, 'A', 'Z') ? Kind::kLetter
             : is_between(c, '0', '9')                          ? Kind::kNumber
             : c == ' ' || is_between(c, '\t', '\r')            ? Kind::kSpace
                                                                : Kind::kOther;
  }
  return out;
}();

/// The kind of the code point at text[*at], which is moved past it.
Kind take(std::string_view text, size_t* at) {
  const auto lead = static_cast<uint8_t>(text[*at]);
  if (lead >= kAscii.size()) return look_up(unicode::decode(text, at));
  ++*at;
  return kAscii[lead];
}

/// Where the run of code points of one kind that begins at `at` ends; *last: where its last one begins.
size_t run(std::string_view text, size_t at, Kind kind, size_t* last) {
  while (at < text.size()) {
    size_t next = at;
    if (take(text, &next) != kind) break;
    *last = at;
    at = next;
  }
  return at;
}

size_t run(std::string_view text, size_t at, Kind kind) {
  size_t last = at;
  return run(text, at, kind, &last);
}

bool is_newline(char c) { return c == '\r' || c == '\n'; }

/// `\s+(?!\S)|\s+`: the last blank of several before a word belongs to the word.
size_t blanks_end(std::string_view text, size_t at) {
  size_t last = at;
  const size_t end = run(text, at, Kind::kSpace, &last);
  return end < text.size() && last > at ? last : end;
}

/// Length of the English contraction at the front of text, 0 if there is none.
size_t contraction(std::string_view text) {
  for (const std::string_view c : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(c)) return c.size();
  return 0;
}

/// The same whatever the case; the long s is one, too.
size_t folded_contraction(std::string_view text) {
  constexpr std::string_view kLongS = "\u017F";
  if (text.substr(1).starts_with(kLongS)) return 1 + kLongS.size();
  std::array<char, 3> lower{};
  const size_t size = std::min(text.size(), lower.size());
  for (size_t i = 0; i < size; ++i)
    lower[i] = static_cast<char>(is_between(text[i], 'A', 'Z') ? text[i] + 32 : text[i]);
  return contraction({lower.data(), size});
}

size_t gpt2_end(std::string_view text, size_t at) {
  if (text[at] == '\'') {
    const size_t length = contraction(text.substr(at));
    if (length > 0) return at + length;
  }
  size_t next = at;
  const Kind kind = take(text, &next);
  if (text[at] == ' ' && next < text.size()) {
    size_t after = next;
    const Kind following = take(text, &after);
    if (following != Kind::kSpace) return run(text, next, following);
  }
  return kind == Kind::kSpace ? blanks_end(text, at) : run(text, at, kind);
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`
size_t lines_end(std::string_view text, size_t at) {
  const std::string_view blanks = text.substr(at, run(text, at, Kind::kSpace) - at);
  const size_t newline = blanks.find_last_of("\r\n");
  return newline != std::string_view::npos ? at + newline + 1 : blanks_end(text, at);
}

size_t cl100k_end(std::string_view text, size_t at, int most_digits) {
  if (text[at] == '\'') {
    const size_t length = folded_contraction(text.substr(at));
    if (length > 0) return at + length;
  }
  size_t next = at;
  const Kind kind = take(text, &next);
  if (kind == Kind::kLetter) return run(text, next, Kind::kLetter);
  if (kind == Kind::kNumber) {
    for (size_t end = next; --most_digits > 0 && end < text.size() && take(text, &end) == Kind::kNumber;)
      next = end;
    return next;
  }
  size_t after = next;
  const Kind following = next < text.size() ? take(text, &after) : Kind::kSpace;
  if (following == Kind::kLetter && !is_newline(text[at])) return run(text, after, Kind::kLetter);
  if (kind == Kind::kSpace && (text[at] != ' ' || following != Kind::kOther)) return lines_end(text, at);
  size_t end = run(text, next, Kind::kOther);
  while (end < text.size() && is_newline(text[end])) ++end;
  return end;
}

}  // namespace

std::optional<SplitPattern> find_split_pattern(std::string_view regex) {
  constexpr std::pair<std::string_view, SplitPattern> kKnown[] = {
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", SplitPattern::kGpt2},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", SplitPattern::kGpt2},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       SplitPattern::kOneDigit},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       SplitPattern::kThreeDigits},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
       SplitPattern::kThreeDigits}};
  for (const auto& [text, pattern] : kKnown)
    if (text == regex) return pattern;
  return std::nullopt;
}

size_t match_end(SplitPattern pattern, std::string_view text, size_t at) {
  return pattern == SplitPattern::kGpt2 ? gpt2_end(text, at)
                                        : cl100k_end(text, at, pattern == SplitPattern::kOneDigit ? 1 : 3);
}

}  // namespace lathe
