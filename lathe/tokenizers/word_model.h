#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace lathe {

/// A piece of a word: vocabulary id and byte range of the word.
struct Piece {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

/// Splits words into pieces of a vocabulary.  Immutable: for any thread.
class WordModel {
 public:
  virtual ~WordModel() = default;
  /// Appends the pieces of one word (valid UTF-8, not empty), which cover it in order; several may stand for
  /// the same range.
  virtual void split(std::string_view word, std::vector<Piece>* out) const = 0;
};

}  // namespace lathe
