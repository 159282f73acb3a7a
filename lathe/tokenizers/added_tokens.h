#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/byte_trie.h"

namespace lathe {

/// A token that is found in the text itself, before words are split (AddedToken of `tokenizers`).
struct AddedToken {
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< matched, normalised, in the normalised text
  bool special = false;
  int32_t id = -1;
};

/// Finds added tokens in a text: the leftmost, and of these the longest, wins.
class AddedTokenMatcher {
 public:
  struct Entry {
    std::string pattern;
    AddedToken token;
  };
  struct Match {
    const AddedToken* token;  ///< null: plain text
    size_t begin, end;        ///< bytes
  };

  AddedTokenMatcher() = default;
  /// Entries with an empty pattern are left out; of equal patterns the first counts.
  explicit AddedTokenMatcher(std::vector<Entry> entries);
  bool empty() const { return entries_.empty(); }
  /// Cuts text (valid UTF-8) into matches and the plain text between them; appends to *out.  split_special:
  /// where a special token wins, the text stays plain.
  void cut(std::string_view text, bool split_special, std::vector<Match>* out) const;

 private:
  const Entry* longest_at(std::string_view rest) const;

  std::vector<Entry> entries_;
  ByteTrie patterns_;               // their places in entries_
  std::array<bool, 256> begins_{};  // whether one begins with this byte: most bytes of a text begin none
};

}  // namespace lathe
