#include "lathe/tokenizers/word_model.h"

#include <array>

#include "lathe/core/error.h"
#include "lathe/text/visible_text.h"
#include "lathe/tokenizers/byte_level.h"
#include "lathe/tokenizers/byte_pairs.h"
#include "lathe/tokenizers/tokenizer_spec.h"
#include "lathe/tokenizers/unigram.h"
#include "lathe/tokenizers/word_piece.h"

namespace lathe {
namespace {

int32_t unknown_id(const TokenizerSpec& spec, const std::string& unknown) {
  for (const auto& [token, id] : spec.vocabulary) {
    if (token == unknown) return id;
  }
  fail(ErrorCode::kInvalidData,
       "tokenizer.json: the unknown token '{}' is not in the vocabulary of {} tokens; expected one in it",
       visible_line(unknown), spec.vocabulary.size());
}

/// Whether every byte that occurs in UTF-8 is a token.
bool has_all_bytes(const std::vector<std::pair<std::string, int32_t>>& vocabulary) {
  std::array<bool, 256> known{};
  for (const auto& [token, id] : vocabulary)
    if (token.size() == 1) known[static_cast<uint8_t>(token[0])] = true;
  for (size_t byte = 0; byte < known.size(); ++byte)
    if (!known[byte] && byte != 0xC0 && byte != 0xC1 && byte <= 0xF4) return false;
  return true;
}

/// The model of byte pairs over code points, or over bytes, whose tokens outside of the alphabet come from no
/// text.
std::unique_ptr<WordModel> make_byte_pairs(const TokenizerSpec& spec) {
  const bool bytes = spec.byte_level.alphabet;
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  for (const auto& [token, id] : spec.vocabulary) {
    if (!bytes)
      vocabulary.emplace_back(token, id);
    else if (auto as_bytes = byte_level::bytes_of(token))
      vocabulary.emplace_back(std::move(*as_bytes), id);
  }
  std::vector<BytePairs::Merge> merges;
  for (const BytePairs::Merge& m : bytes ? spec.merges : std::vector<BytePairs::Merge>()) {
    const auto left = byte_level::bytes_of(m.left), right = byte_level::bytes_of(m.right);
    if (!left || !right)
      fail(ErrorCode::kInvalidData, "tokenizer.json: merge '{}' '{}' is outside of ByteLevel's alphabet",
           visible_line(m.left), visible_line(m.right));
    merges.push_back({*left, *right});
  }
  const bool complete = bytes ? has_all_bytes(vocabulary) : spec.byte_fallback;
  if (bytes && spec.byte_fallback && !complete)
    fail(
        ErrorCode::kUnsupported,
        "tokenizer.json: BPE after ByteLevel with byte_fallback has no token for some bytes; expected all of "
        "them, or no byte_fallback");
  const BytePairRules rules = {
      .bytes = bytes,
      .whole_words = spec.byte_level.whole_words,
      .byte_fallback = spec.byte_fallback,
      .unk_id = complete || spec.unk_token.empty() ? -1 : unknown_id(spec, spec.unk_token),
      .fuse_unk = spec.fuse_unk};
  return std::make_unique<BytePairs>(vocabulary, bytes ? merges : spec.merges, rules);
}

std::unique_ptr<WordModel> make_unigram(const TokenizerSpec& spec) {
  std::vector<ScoredToken> vocabulary;
  for (const auto& [token, id] : spec.vocabulary)
    vocabulary.push_back({token, spec.scores[static_cast<size_t>(id)]});
  return std::make_unique<Unigram>(vocabulary, unknown_id(spec, spec.names.unk), spec.byte_fallback);
}

}  // namespace

std::unique_ptr<WordModel> make_model(const TokenizerSpec& spec) {
  if (spec.model == ModelKind::kUnigram) return make_unigram(spec);
  if (spec.model == ModelKind::kBytePairs) return make_byte_pairs(spec);
  return std::make_unique<WordPiece>(spec.vocabulary, spec.prefix, unknown_id(spec, spec.names.unk),
                                     spec.max_chars);
}

}  // namespace lathe
