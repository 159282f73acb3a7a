#include "lathe/tokenizers/chars_map.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

constexpr size_t kWholeBelow = 6;  // bytes of a grapheme

uint32_t read_u32(const std::string& bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return out;
}

// A unit of the double array.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t label(uint32_t unit) { return unit & 0x800000FFu; }
uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

/// The code points of `to` in place of the n of what was there.
void replace(size_t n, std::string_view to, std::vector<Change>* out) {
  const size_t first = out->size();
  for (size_t at = 0; at < to.size();) out->push_back({unicode::decode(to, &at), 0});
  const size_t now = out->size() - first;
  for (size_t i = first + n; i < out->size(); ++i) (*out)[i].change = 1;
  // Characters removed at the very front leave no trace, and the origins after them shift.
  if (now < n && !out->empty()) out->back().change -= static_cast<int32_t>(n - now);
}

}  // namespace

CharsMap::CharsMap(const std::string& bytes, const std::string& name) {
  const size_t size = bytes.size() < 4 ? 0 : read_u32(bytes, 0);
  if (size < 4 || size % 4 != 0 || size > bytes.size() - 4)
    fail(ErrorCode::kInvalidData,
         "{}: a map of {} bytes with a trie of {}; expected a trie of whole units within it", name,
         bytes.size(), size);
  for (size_t at = 4; at < 4 + size; at += 4) units_.push_back(read_u32(bytes, at));
  texts_ = bytes.substr(4 + size);
  if (!unicode::is_valid(texts_)) fail(ErrorCode::kInvalidData, "{}: its texts are not valid UTF-8", name);
  for (size_t c = 0; c < 256; ++c) {
    const char text = static_cast<char>(c);
    plain_[c] = c < 0x80 && text != '\r' && !find({&text, 1});
  }
}

std::optional<std::string_view> CharsMap::find(std::string_view text) const {
  size_t node = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) return std::nullopt;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    const size_t begin = node < units_.size() ? value(units_[node]) : texts_.size();
    // A text that begins within a character would not be one.
    if (begin >= texts_.size() || (static_cast<uint8_t>(texts_[begin]) & 0xC0) == 0x80) return std::nullopt;
    return std::string_view(texts_).substr(begin, std::min(texts_.find('\0', begin), texts_.size()) - begin);
  }
  return std::nullopt;
}

bool CharsMap::apply(const NormalizedText& from, std::vector<Change>* changes, NormalizedText* out) const {
  const std::string_view text(from.text);
  const auto is_plain = [this](char c) { return plain_[static_cast<uint8_t>(c)]; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return false;
  changes->clear();
  bool modified = false;
  const auto put = [&](std::string_view part, size_t code_points) {
    const auto to = find(part);
    if (to) replace(code_points, *to, changes);
    modified = modified || to;
    return to.has_value();
  };
  for (size_t at = 0; at < text.size();) {
    if (is_plain(text[at]) && (at + 1 == text.size() || static_cast<uint8_t>(text[at + 1]) < 0x80)) {
      changes->push_back({static_cast<uint8_t>(text[at++]), 0});
      continue;
    }
    const size_t end = unicode::grapheme_end(text, at);
    const std::string_view grapheme = text.substr(at, end - at);
    if (grapheme.size() < kWholeBelow && put(grapheme, unicode::length(grapheme))) {
      at = end;
      continue;
    }
    while (at < end) {
      const size_t begin = at;
      const uint32_t cp = unicode::decode(text, &at);
      if (!put(text.substr(begin, at - begin), 1)) changes->push_back({cp, 0});
    }
  }
  if (modified) transform(from, *changes, out);
  return modified;
}

}  // namespace lathe
