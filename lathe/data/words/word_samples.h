#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/data/tokenized.h"
#include "lathe/data/words/word_labels.h"

namespace lathe {

/// A sample for each window, in order, with "labels" for each token where the sentences have tags.
TokenizedDataset word_samples(const LabelledSentences& sentences, const Tokenizer& tokenizer);

/// A token whose label counts.
struct LabelledToken {
  int64_t token = 0;         ///< among all tokens of word_samples
  int32_t word = 0;          ///< of its sentence
  int32_t label = kNoLabel;  ///< kNoLabel without tags
};

/// [sentences] Those that have a label; without tags the first tokens of the words that windows answer for.
/// In the order of the words.
std::vector<std::vector<LabelledToken>> scored_tokens(const LabelledSentences& sentences);

/// What seqeval compares: labels and predictions of those tokens.  best: [tokens] predicted labels.
TagIds wanted_tags(const std::vector<std::vector<LabelledToken>>& tokens);
TagIds found_tags(const std::vector<std::vector<LabelledToken>>& tokens, std::span<const int32_t> best);

}  // namespace lathe
