#pragma once
#include <climits>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tokenizers/added_tokens.h"
#include "lathe/tokenizers/byte_pairs.h"
#include "lathe/tokenizers/normalizer.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// A step of the template that puts texts and special tokens together.
struct TemplatePiece {
  int sequence = -1;  ///< 0 first text, 1 second text, -1 special tokens
  int32_t type_id = 0;
  std::vector<int32_t> ids;  ///< of special tokens
  std::string token;         ///< their name
};
using Template = std::vector<TemplatePiece>;

struct SpecialTokenNames {
  std::string unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]";
};

/// How words become tokens, and with it how a text becomes words: WordPiece after BERT's pre-tokeniser, byte
/// pairs after ByteLevel.
enum class ModelKind { kWordPiece, kBytePairs };

/// What byte-level tokenizers say beyond vocabulary and merges.
struct ByteLevelRules {
  bool add_prefix_space = false;  ///< a blank before every stretch of text that has none
  bool use_regex = true;          ///< GPT-2's pattern parts words; false: a stretch is one word
  bool trim_offsets = false;      ///< offsets leave blanks at both ends of a token out
  bool trim_keeps_prefix = true;  ///< but not a single one that may be the prefix space
  bool whole_words = false;       ///< `ignore_merges`
};

/// Everything that the files of a tokenizer say, checked: WordPiece's unk is in the vocabulary, ids are in
/// [0, 2^24), `single` holds the first text once, `pair` both texts once, the first one first.
struct TokenizerSpec {
  ModelKind model = ModelKind::kWordPiece;
  std::vector<std::pair<std::string, int32_t>> vocabulary;  ///< distinct tokens, by ascending id
  std::string prefix = "##";                                ///< of pieces inside a word
  uint32_t max_chars = 100;                                 ///< code points of the longest word that is split
  NormalizerRules normalizer;
  std::vector<BytePairs::Merge> merges;  ///< as tokens are written, by rank
  ByteLevelRules byte_level;
  std::vector<AddedToken> added;
  Template single, pair;
  /// Windows that overflow have the template's type ids, unless no special tokens are added
  /// (RobertaProcessing).
  bool uniform_type_ids = false;
  bool has_decoder = true;  ///< false: decode joins tokens by blanks
  std::string decoder_prefix = "##";
  bool cleanup = true;
  SpecialTokenNames names;
  int model_max_length = INT_MAX;
};

/// Reads the files of a folder.  Errors as Tokenizer::load.
TokenizerSpec read_tokenizer_spec(std::span<const NamedFile> files, const std::string& origin);

/// The files that describe spec, for Python's transformers.  vocab.txt only where it can express the ids.
std::vector<NamedFile> write_tokenizer_files(const TokenizerSpec& spec);

}  // namespace lathe
