#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/word_model.h"

namespace lathe {

/// A model whose thread remembers the pieces of short words that it split lately: a table of fixed size (one
/// megabyte a thread, for all models together) in which a word takes the place of another one.  For any
/// thread.
class WordCache {
 public:
  WordCache();
  /// As model.split.  model: the same one in every call.
  void split(const WordModel& model, std::string_view word, std::vector<Piece>* out) const;

 private:
  uint64_t owner_;  // in the table; no two have the same
};

}  // namespace lathe
