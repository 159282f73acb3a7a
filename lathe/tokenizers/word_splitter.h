#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/text/normalized_text.h"

namespace lathe {

/// A pre-tokeniser that parts a stretch of text into words.
struct WordStep {
  enum class Kind { kWhitespaceSplit, kPunctuation, kMetaspace };
  enum class Prepend { kAlways, kFirst, kNever };

  Kind kind = Kind::kWhitespaceSplit;
  // Of Metaspace: a blank becomes `replacement`, which is put before a stretch that does not begin with it
  // (kFirst: only where the text begins), and begins a word.
  std::string replacement = "\u2581";
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

/// Pre-tokenisers one after the other: each parts what the one before it left.  Immutable: for any thread.
/// Source: WhitespaceSplit, Punctuation (isolated), Metaspace of the `tokenizers` crate.
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

  std::vector<WordStep> steps_;
};

}  // namespace lathe
