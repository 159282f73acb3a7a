#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/text/normalized_text.h"
#include "lathe/tokenizers/split_pattern.h"

namespace lathe {

/// A pre-tokeniser that parts a stretch of text into words.
struct WordStep {
  enum class Kind { kWhitespaceSplit, kPunctuation, kMetaspace, kSplit, kDigits, kByteLevel };
  enum class Prepend { kAlways, kFirst, kNever };
  /// What becomes of a match: a word by itself, nothing, one word with matches next to it, a part of the word
  /// before or after it.
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

  Kind kind = Kind::kWhitespaceSplit;
  // Of Metaspace: a blank becomes `replacement`, which is put before a stretch that does not begin with it
  // (kFirst: only where the text begins), and begins a word.
  std::string replacement = "\u2581";
  Prepend prepend = Prepend::kAlways;
  bool split = true;

  // Of Split: matches of the pattern or, where there is none, of the text; inverted, what lies between them.
  std::optional<SplitPattern> pattern = {};
  std::string literal = {};                 ///< empty: it has no match
  Behavior behavior = Behavior::kIsolated;  ///< Digits': isolated or contiguous
  bool invert = false;

  // Of ByteLevel, which is the last: a blank before a stretch that has none, and GPT-2's pattern.
  bool add_prefix_space = false, use_regex = true;
};

/// Pre-tokenisers one after the other: each parts what the one before it left.  Immutable: for any thread.
/// Source: WhitespaceSplit, Punctuation (isolated), Metaspace, Split, Digits, ByteLevel of the `tokenizers`
/// crate.
class WordSplitter {
 public:
  using Word = std::function<void(const NormalizedText& text, size_t begin, size_t end)>;

  explicit WordSplitter(std::vector<WordStep> steps);
  /// Calls word for each of the words of bytes [begin, end) in order; no word is empty.  What it gets is good
  /// during the call.
  void split(const NormalizedText& text, size_t begin, size_t end, const Word& word) const;

 private:
  void run(size_t step, const NormalizedText& text, size_t begin, size_t end,
           std::vector<NormalizedText>* changed, const Word& word) const;
  void split_metaspace(size_t step, const NormalizedText& text, size_t begin, size_t end,
                       std::vector<NormalizedText>* changed, const Word& word) const;
  void split_matches(size_t step, const NormalizedText& text, size_t begin, size_t end,
                     std::vector<NormalizedText>* changed, const Word& word) const;
  void split_pattern(size_t step, SplitPattern pattern, const NormalizedText& text, size_t begin, size_t end,
                     std::vector<NormalizedText>* changed, const Word& word) const;
  void split_byte_level(size_t step, const NormalizedText& text, size_t begin, size_t end,
                        std::vector<NormalizedText>* changed, const Word& word) const;

  std::vector<WordStep> steps_;
};

}  // namespace lathe
