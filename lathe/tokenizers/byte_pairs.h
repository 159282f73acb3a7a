#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/tokenizers/word_model.h"

namespace lathe {

/// Byte pair encoding over bytes: of all neighbours that may merge, those with the lowest rank merge first,
/// of equal ones the leftmost, until none may. Source: Sennrich et al. 2016 (arXiv 1508.07909); over bytes,
/// Radford et al. 2019 (GPT-2).
class BytePairs : public WordModel {
 public:
  struct Merge {
    std::string left, right;
  };

  /// Tokens as bytes, ids distinct; merges by ascending rank, of equal ones the last counts.  whole_words: a
  /// word that is a token is this token, whatever merges say. Errors: kInvalidData for a merge whose parts or
  /// whole are no tokens, or if a byte that UTF-8 uses is none.
  BytePairs(const std::vector<std::pair<std::string, int32_t>>& vocabulary, const std::vector<Merge>& merges,
            bool whole_words);
  void split(std::string_view word, std::vector<Piece>* out) const override;

 private:
  struct Merged {
    int32_t rank, id;
  };
  const Merged* find(int32_t left, int32_t right) const;
  void merge(std::string_view word, std::vector<Piece>* out) const;

  std::unordered_map<uint64_t, Merged> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_;
  std::unordered_map<std::string, int32_t> whole_;  // words that come out as one token
};

}  // namespace lathe
