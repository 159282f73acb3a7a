#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lathe {

struct TokenizerSpec;

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
  /// Appends the pieces of one word (valid UTF-8, not empty), in order.  They cover it, but for what the
  /// model leaves out; several may stand for the same range.
  virtual void split(std::string_view word, std::vector<Piece>* out) const = 0;
};

/// The model that the files of a tokenizer ask for.  Errors: kInvalidData where a merge is outside of
/// ByteLevel's alphabet, or where the unknown token that a text may need is no token.
std::unique_ptr<WordModel> make_model(const TokenizerSpec& spec);

}  // namespace lathe
