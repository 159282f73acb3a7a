#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/tokenizers/word_model.h"

namespace lathe {

/// What a BPE model says beyond vocabulary and merges.
struct BytePairRules {
  bool bytes = true;         ///< a word begins as its bytes, tokens are bytes; else as its code points
  bool whole_words = false;  ///< a word that is a token is this token, whatever merges say
  /// Over code points: one that is no token becomes tokens <0x00> to <0xFF>, one a byte of its UTF-8.
  bool byte_fallback = false;
  int32_t unk_id = -1;    ///< what is no token otherwise; -1: it is left out
  bool fuse_unk = false;  ///< one unknown token for neighbours
};

/// Byte pair encoding: of all neighbours that may merge, those with the lowest rank merge first, of equal
/// ones the leftmost, until none may. Source: Sennrich et al. 2016 (arXiv 1508.07909); over bytes, Radford et
/// al. 2019 (GPT-2).
class BytePairs : public WordModel {
 public:
  struct Merge {
    std::string left, right;
  };

  /// Ids are distinct; merges by ascending rank, of equal ones the last counts.
  /// Errors: kInvalidData for a merge whose parts or whole are no tokens, and for byte_fallback without its
  /// 256 tokens.
  BytePairs(const std::vector<std::pair<std::string, int32_t>>& vocabulary, const std::vector<Merge>& merges,
            const BytePairRules& rules);
  /// What is left out counts for nothing in the ranges of pieces, so that those after it begin too early: as
  /// the `tokenizers` package counts.  Takes n log n steps for n bytes.
  void split(std::string_view word, std::vector<Piece>* out) const override;

 private:
  struct Merged {
    int32_t rank, id;
  };
  const Merged* find(int32_t left, int32_t right) const;
  /// The word as symbols; false where something is left out.
  bool begin(std::string_view word, std::vector<Piece>* symbols) const;
  void merge(std::string_view word, std::vector<Piece>* out) const;

  BytePairRules rules_;
  std::unordered_map<uint64_t, Merged> merges_;  // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_;            // of bytes or of <0x00> to <0xFF>; -1: there is none
  std::unordered_map<uint32_t, int32_t> char_ids_;
  std::unordered_map<std::string, int32_t> whole_;  // words that come out as one token
};

}  // namespace lathe
