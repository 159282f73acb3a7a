#pragma once
#include <string>
#include <vector>

#include "lathe/tokenizers/byte_trie.h"
#include "lathe/tokenizers/word_model.h"

namespace lathe {

/// Greedy longest match over a vocabulary held as a trie; pieces after the first carry a prefix ("##").
/// Source: Wu et al. 2016 (arXiv 1609.08144); limits as in the `tokenizers` crate's WordPiece.
class WordPiece : public WordModel {
 public:
  /// unk_id replaces a word that cannot be built of pieces or has more than max_chars code points.
  /// Errors: kInvalidData if the vocabulary has 2^24 or more trie nodes.
  WordPiece(const std::vector<std::pair<std::string, int32_t>>& vocabulary, std::string_view prefix,
            int32_t unk_id, uint32_t max_chars);
  /// Appends the pieces of one word (valid UTF-8, not empty); linear in its length.
  void split(std::string_view word, std::vector<Piece>* out) const override;

 private:
  ByteTrie trie_;
  uint32_t continuation_;  // node after the prefix
  int32_t unk_id_;
  uint32_t max_chars_;
};

}  // namespace lathe
