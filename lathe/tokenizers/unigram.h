#pragma once
#include <array>
#include <string>
#include <vector>

#include "lathe/tokenizers/byte_trie.h"
#include "lathe/tokenizers/word_model.h"

namespace lathe {

/// A token of a Unigram model and the logarithm of its probability; its place in the vocabulary is its id.
struct ScoredToken {
  std::string token;
  double score;
};

/// Of all ways to build a word of tokens the one with the highest sum of scores (Viterbi); of equal ones the
/// one that was found first, going from left to right, short tokens before long ones.  A character that is no
/// token costs 10 more than the cheapest token; a run of such is one unknown token. Source: Kudo 2018 (arXiv
/// 1804.10959); the `tokenizers` crate's Unigram.
class Unigram : public WordModel {
 public:
  /// vocabulary: distinct tokens; unk_id < its size.  byte_fallback: what is unknown becomes tokens <0x00> to
  /// <0xFF>, one a byte, if they exist for all of its bytes.
  /// Errors: kInvalidData if the vocabulary has 2^24 or more trie nodes.
  Unigram(const std::vector<ScoredToken>& vocabulary, int32_t unk_id, bool byte_fallback);
  /// Appends the pieces of one word (valid UTF-8, not empty); linear in its length times the longest token's.
  void split(std::string_view word, std::vector<Piece>* out) const override;

 private:
  void put_unknown(std::string_view word, uint32_t begin, uint32_t end, std::vector<Piece>* out) const;

  ByteTrie trie_;
  std::vector<double> scores_;
  std::array<int32_t, 256> byte_ids_;  // -1: there is none
  double unknown_score_;
  int32_t unk_id_;
};

}  // namespace lathe
