#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// A text after normalisation.  origin has one entry per byte of text: the index of the code point of the
/// original that the byte comes from; ascending.
struct NormalizedText {
  std::string text;
  std::vector<uint32_t> origin;

  void clear() {
    text.clear();
    origin.clear();
  }
  /// The text itself.  text: valid UTF-8; first: the index of its first code point.
  void assign(std::string_view original, uint32_t first);
  /// Appends bytes [begin, end) of another one.
  void append(const NormalizedText& from, size_t begin, size_t end);
  void append(uint32_t cp, uint32_t where);
};

/// A code point of a normalised text and its meaning: 1: it is new, and shares the origin of the code
/// point before it; 0: it replaces one; -n: it replaces one and the n that follow it are gone.
struct Change {
  uint32_t cp;
  int32_t change;
};

/// Puts the code points into *out, with the origins that they get as they replace those of `from`, one after
/// the other.  Source: NormalizedString::transform of the `tokenizers` crate.
void transform(const NormalizedText& from, std::span<const Change> changes, NormalizedText* out);

}  // namespace lathe
