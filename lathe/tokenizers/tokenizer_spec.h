#pragma once
#include <climits>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tokenizers/added_tokens.h"
#include "lathe/tokenizers/byte_pairs.h"
#include "lathe/tokenizers/decoder.h"
#include "lathe/tokenizers/normalizer_chain.h"
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/tokenizers/word_splitter.h"

namespace lathe {

/// A step of the template that puts texts and special tokens together.
struct TemplatePiece {
  int sequence = -1;  ///< 0 first text, 1 second text, -1 special tokens
  int32_t type_id = 0;
  std::vector<int32_t> ids;             ///< of special tokens
  std::string token;                    ///< their name
  std::vector<std::string> names = {};  ///< of each of ids in the file; empty if it has none
};
using Template = std::vector<TemplatePiece>;

struct SpecialTokenNames {
  std::string unk = "[UNK]", sep = "[SEP]", pad = "[PAD]", cls = "[CLS]", mask = "[MASK]";
  std::string bos = {}, eos = {};  ///< empty: there is none
};

/// How words become tokens, and with it how a text becomes words: WordPiece after BERT's pre-tokeniser, byte
/// pairs after ByteLevel or any WordSteps, Unigram after any WordSteps.
enum class ModelKind { kWordPiece, kBytePairs, kUnigram };

/// What BPE tokenizers say beyond vocabulary and merges; add_prefix_space and use_regex count where there are
/// no WordSteps.
struct ByteLevelRules {
  bool alphabet = false;          ///< tokens are bytes, written in its alphabet; else code points
  bool add_prefix_space = false;  ///< a blank before every stretch of text that has none
  bool use_regex = true;          ///< GPT-2's pattern parts words; false: a stretch is one word
  bool trim_offsets = false;      ///< offsets leave blanks at both ends of a token out
  bool trim_keeps_prefix = true;  ///< but not a single one that may be the prefix space
  bool whole_words = false;       ///< `ignore_merges`
};

/// Everything that the files of a tokenizer say, checked: WordPiece's and Unigram's unk is in the vocabulary,
/// ids are in [0, 2^24), Unigram's those from 0 to the number of its scores, `single` holds the first text
/// once, `pair` both texts once, the first one first.
struct TokenizerSpec {
  ModelKind model = ModelKind::kWordPiece;
  std::vector<std::pair<std::string, int32_t>> vocabulary;  ///< distinct tokens, by ascending id
  std::string prefix = "##";                                ///< of pieces inside a word
  uint32_t max_chars = 100;                                 ///< code points of the longest word that is split
  std::vector<NormalizerStep> normalizer;
  std::vector<BytePairs::Merge> merges;  ///< as tokens are written, by rank
  ByteLevelRules byte_level;
  std::vector<double> scores;  ///< of Unigram's tokens, by id
  bool byte_fallback = false;  ///< Unigram's and BPE's
  bool fuse_unk = false;       ///< BPE's
  std::string unk_token;       ///< BPE's; empty: what is no token is left out
  std::vector<WordStep> word_steps;
  std::vector<AddedToken> added;
  Template single, pair;
  /// Windows that overflow have the template's type ids, unless no special tokens are added
  /// (RobertaProcessing).
  bool uniform_type_ids = false;
  DecoderRules decoder;
  SpecialTokenNames names;
  int model_max_length = INT_MAX;
  bool gives_types = true;            ///< models are given type ids
  bool truncates_left = false;        ///< a text that is too long loses its beginning
  bool pads_left = false;             ///< `padding_side`
  bool split_special_tokens = false;  ///< in a text they are words as others
};

/// Reads the files of a folder.  Errors as Tokenizer::load.
TokenizerSpec read_tokenizer_spec(std::span<const NamedFile> files, const std::string& origin);

/// The second file that describes spec, for Python's transformers: tokenizer.json if it was read from
/// vocab.txt, else vocab.txt if that can express the tokens and ids.
std::vector<NamedFile> write_tokenizer_files(const TokenizerSpec& spec, bool from_vocab_txt);

}  // namespace lathe
