#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/tokenized.h"

namespace lathe {

/// How many rows have each label, [names]; of several labels a row counts for each.
std::vector<int64_t> label_counts(const TextDataset& data);

/// What is odd about labels to learn from, a sentence each: only one class, classes that differ only in case,
/// blanks or the spelling of a number, classes of a single row, numbers among words, what looks like a list
/// and is one class, whole numbers that are taken for a regression.
std::vector<std::string> label_doubts(const TextDataset& data);

/// The sentence for texts and labels with zero bytes, which come from damage or another encoding; "" where
/// there are none.
std::string zero_bytes_doubt(const TextDataset& data);

/// How many rows of `data` have texts that `train` has, too.
size_t rows_in_both(const TextDataset& train, const TextDataset& data);

/// Of lengths in tokens, at least one: what at least half, 90 % and 99 % of the samples have at most.
struct LengthFacts {
  int median, most_of_90, most_of_99, longest;
};
LengthFacts length_facts(std::vector<int32_t> lengths);

/// Samples of which tokens were cut off.
int64_t cut_samples(const TokenizedDataset& data);

}  // namespace lathe
