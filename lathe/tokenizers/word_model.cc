#include "lathe/tokenizers/word_model.h"

#include "lathe/core/error.h"
#include "lathe/tokenizers/byte_level.h"
#include "lathe/tokenizers/byte_pairs.h"
#include "lathe/tokenizers/tokenizer_spec.h"
#include "lathe/tokenizers/unigram.h"
#include "lathe/tokenizers/word_piece.h"

namespace lathe {
namespace {

int32_t unknown_id(const TokenizerSpec& spec) {
  for (const auto& [token, id] : spec.vocabulary) {
    if (token == spec.names.unk) return id;
  }
  fail(ErrorCode::kInternal, "tokenizer: unknown token '{}' lost", spec.names.unk);
}

/// The model of byte pairs, its tokens as bytes; those outside of the alphabet come from no text.
std::unique_ptr<WordModel> make_byte_pairs(const TokenizerSpec& spec) {
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  for (const auto& [token, id] : spec.vocabulary) {
    if (auto bytes = byte_level::bytes_of(token)) vocabulary.emplace_back(std::move(*bytes), id);
  }
  std::vector<BytePairs::Merge> merges;
  for (const BytePairs::Merge& m : spec.merges) {
    const auto left = byte_level::bytes_of(m.left), right = byte_level::bytes_of(m.right);
    if (!left || !right)
      fail(ErrorCode::kInvalidData, "tokenizer.json: merge '{}' '{}' is outside of ByteLevel's alphabet",
           m.left, m.right);
    merges.push_back({*left, *right});
  }
  return std::make_unique<BytePairs>(vocabulary, merges, spec.byte_level.whole_words);
}

std::unique_ptr<WordModel> make_unigram(const TokenizerSpec& spec) {
  std::vector<ScoredToken> vocabulary;
  for (const auto& [token, id] : spec.vocabulary)
    vocabulary.push_back({token, spec.scores[static_cast<size_t>(id)]});
  return std::make_unique<Unigram>(vocabulary, unknown_id(spec), spec.byte_fallback);
}

}  // namespace

std::unique_ptr<WordModel> make_model(const TokenizerSpec& spec) {
  if (spec.model == ModelKind::kUnigram) return make_unigram(spec);
  if (spec.model == ModelKind::kBytePairs) return make_byte_pairs(spec);
  return std::make_unique<WordPiece>(spec.vocabulary, spec.prefix, unknown_id(spec), spec.max_chars);
}

}  // namespace lathe
