#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

/// The tokens of one text or pair of texts.  All vectors have the same length.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
  /// Half-open range of code points of the original text; {0, 0} for special tokens.
  std::vector<std::array<int32_t, 2>> offsets;
  /// -1 special, 0 first text, 1 second text.
  std::vector<int8_t> sequence_ids;
  /// Index of the pre-tokenised word (words, punctuation marks, CJK characters) in its text; -1 special.
  std::vector<int32_t> word_ids;
  size_t whole = 0;  ///< tokens that it would have without truncation

  size_t size() const { return ids.size(); }
  bool operator==(const Encoding&) const = default;
};

/// Which text gives way when a pair is longer than max_length.  kLongestFirst shortens as the fast tokenizer
/// of Hugging Face does: the shorter text is kept whole if the longer one can make room, else both get half.
enum class Truncation { kNone, kLongestFirst, kOnlyFirst, kOnlySecond };

struct EncodeOptions {
  int max_length = 0;  ///< tokens, special ones included; 0: no limit
  Truncation truncation = Truncation::kLongestFirst;
  int stride = 0;  ///< tokens that neighbouring windows of encode_with_overflow share
  bool add_special_tokens = true;
  /// Special tokens in the text are words as others, so that a text of others cannot end a turn or begin one;
  /// they always are where tokenizer_config.json says split_special_tokens.
  bool split_special_tokens = false;
};

/// One file of a Hugging Face folder: name and bytes.
using NamedFile = std::pair<std::string, std::string>;

/// BERT's WordPiece tokenizer, a byte-level BPE one (RoBERTa, GPT-2, ModernBERT) or a Unigram one (XLM-R);
/// ids, offsets and windows equal those of Hugging Face's fast tokenizer (the `tokenizers` crate 0.2x).
/// Immutable; all methods may be called from any thread. Copies share their state.  Invalid UTF-8 in a text
/// is read as U+FFFD, one per maximal ill-formed part, as Python's `bytes.decode(errors="replace")` does;
/// encode never fails because of the text's content.
class Tokenizer {
 public:
  /// Reads `tokenizer.json`, else `vocab.txt`, from a folder, with `tokenizer_config.json`,
  /// `special_tokens_map.json` and `added_tokens.json` where they exist.
  /// Where tokenizer_config.json names transformers' RoBERTa class, its add_prefix_space (else false) and
  /// trim_offsets (else true) override those in tokenizer.json.
  /// Where it names transformers' BERT class, or none, its do_lower_case (else true),
  /// strip_accents and tokenize_chinese_chars override the normaliser in tokenizer.json, as transformers
  /// does; without that file only tokenizer.json counts.  Its truncation and padding are not used, as
  /// EncodeOptions state them, but for truncation's direction where no truncation_side is in
  /// tokenizer_config.json; that file's split_special_tokens counts, too. Errors: kNotFound if neither is
  /// there; kIo or kNotFound for a file that is there but cannot be read; kInvalidData for a malformed file
  /// or a Git LFS pointer; kUnsupported, naming what was found, for a component other than those that
  /// docs/models.md lists.
  static Tokenizer load(const std::string& folder);
  /// The same from bytes in memory, names as in a folder.  `origin` is for messages.
  static Tokenizer from_files(std::span<const NamedFile> files, const std::string& origin);

  /// Truncates to options.max_length by options.truncation; stride is only checked.
  /// Errors: kUsage if the text cannot be cut to max_length that way (as the fast tokenizer refuses).
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options = {}) const;
  /// As encode, then the windows that overflowed, in the order of `return_overflowing_tokens`; never empty.
  /// Where both texts of a pair overflow, every window of the one meets every window of the other.
  std::vector<Encoding> encode_with_overflow(std::string_view text, const EncodeOptions& options) const;
  std::vector<Encoding> encode_with_overflow(std::string_view first, std::string_view second,
                                             const EncodeOptions& options) const;
  /// The text of the ids: pieces joined, `cleanup` as in the file.  Ids out of range are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  /// Tokens, or texts in their place, put together as `decode` does: `convert_tokens_to_string` in Python.
  std::string join(std::span<const std::string> tokens) const;

  /// Tokens with added ones: `len(tokenizer)` in Python.
  int vocab_size() const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// Errors: kUsage if no token has this id.
  const std::string& id_to_token(int32_t id) const;
  /// Ids of the special tokens; -1 if the tokenizer has none of that kind.
  int32_t cls_id() const;
  int32_t sep_id() const;
  int32_t pad_id() const;
  int32_t unk_id() const;
  int32_t mask_id() const;
  /// What begins and what ends a text of a decoder: bos_token and eos_token of tokenizer_config.json, else of
  /// special_tokens_map.json, else those of the class that it names; -1 if none of them names one.
  int32_t bos_id() const;
  int32_t eos_id() const;
  /// `model_max_length` of tokenizer_config.json; INT32_MAX if it is absent or larger.
  int model_max_length() const;
  /// Whether `padding_side` of tokenizer_config.json is left.  Lathe pads nothing; run_qa turns pairs round
  /// then.
  bool pads_left() const;
  /// Whether a text that is too long loses its beginning: `truncation_side` left.
  bool truncates_left() const;
  /// Whether tokens inside a word have a mark that a word's first has not (WordPiece's "##").
  bool marks_inner_tokens() const;
  /// Whether transformers passes type ids on to the model: `model_input_names` of tokenizer_config.json has
  /// token_type_ids; where it has none, those of the class that it names, and where it names none, WordPiece.
  bool gives_types() const;
  /// Special tokens that encode adds to one text or to a pair.
  int num_special_tokens(bool pair) const;

  /// What belongs into a saved model folder: tokenizer.json, tokenizer_config.json, special_tokens_map.json
  /// and vocab.txt; byte for byte as loaded where the file existed, generated where not; and
  /// added_tokens.json where it existed.
  std::vector<NamedFile> files() const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// One JSON object, on one line: ids, tokens, type_ids, offsets, sequence_ids, word_ids.
std::string encoding_to_json(const Encoding& encoding, const Tokenizer& tokenizer);

}  // namespace lathe
