#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/text/normalized_text.h"

namespace lathe {

/// SentencePiece's precompiled map of characters, as `Precompiled` of the `tokenizers` crate applies it: a
/// grapheme of less than six bytes is looked up as a whole, a longer one, or one that is not there, code
/// point by code point.  What is found is the shortest key that the text begins with, and it replaces all
/// of that text. Immutable: for any thread.
class CharsMap {
 public:
  /// bytes: the size of the trie in bytes (u32), the trie (a double array of Darts-clone, u32 units), then
  /// the texts, each ending in NUL; all little-endian.  name is for messages. Errors: kInvalidData if the
  /// sizes do not fit, an entry points beyond the texts or these are not UTF-8.
  CharsMap(const std::string& bytes, const std::string& name);

  /// What the text becomes; nothing: it stays.
  std::optional<std::string_view> find(std::string_view text) const;
  /// Puts the mapped text into *out, or returns false if the text stays as it is.  *changes is overwritten.
  bool apply(const NormalizedText& from, std::vector<Change>* changes, NormalizedText* out) const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 256> plain_;  // ASCII that stays as it is, whatever follows
};

}  // namespace lathe
