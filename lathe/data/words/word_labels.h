#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/words/tag_labels.h"
#include "lathe/tokenizers/words_input.h"

namespace lathe {

/// The label of a token that is not learnt from and not scored.
inline constexpr int32_t kNoLabel = -100;

struct WordLabelOptions {
  int max_length = 0;             ///< tokens of a sample, special ones included; 0: no limit
  bool label_all_tokens = false;  ///< false: only the first token of a word has its label
  /// Without it a longer sentence is cut, as run_ner cuts it.  With it the sentence becomes windows, of which
  /// neighbours share so many tokens.
  std::optional<int> stride = {};
};

/// One sample: a sentence, or a window of it.
struct LabelledWindow {
  Encoding tokens;               ///< word_ids: index of the word in the sentence, -1 special
  std::vector<int32_t> labels;   ///< [tokens], kNoLabel where there is none; without tags empty
  std::vector<int32_t> answers;  ///< the first tokens of the words that this window answers for, ascending
};

/// Every word with a token that is not cut off is answered for by one window: of those that hold its first
/// token the one in which the nearer end that is not the sentence's is farthest away.  Only there it has its
/// label.
struct LabelledSentence {
  std::vector<LabelledWindow> windows;  ///< at least one
  int32_t cut_words = 0;                ///< words with tokens that no window answers for
  int32_t silent_words = 0;             ///< words without tokens: empty, or of characters that are dropped

  /// [words] What the windows say of each word: best[w][t] is the label predicted for token t of window w.
  /// -1 for words that no window answers for.
  std::vector<int32_t> answers(size_t words, std::span<const std::vector<int32_t>> best) const;
};

/// Labels as run_ner's tokenize_and_align_labels: that of a word for its first token, for its other ones
/// kNoLabel, or under label_all_tokens labels.inner().  ids: [words] labels of the words; empty: there are
/// none. Errors: kUsage if max_length leaves no room, or stride leaves no progress.
LabelledSentence label_words(const Tokenizer& tokenizer, std::span<const std::string> words,
                             std::span<const int32_t> ids, const TagLabels& labels,
                             const WordLabelOptions& options);

/// The sentences of a table, with what is to be told of them.
struct LabelledSentences {
  std::vector<LabelledSentence> sentences;
  int64_t words = 0, cut_words = 0, silent_words = 0;
  int64_t cut_sentences = 0;  ///< sentences with cut words
  size_t first_cut = 0;       ///< the first of them
};

/// ids: of the table's tags (tag_ids), or empty.  The result does not depend on the number of threads.
/// Errors: as label_words.
LabelledSentences label_sentences(const Tokenizer& tokenizer, const WordTable& table, const TagIds& ids,
                                  const TagLabels& labels, const WordLabelOptions& options, ThreadPool& pool);

}  // namespace lathe
