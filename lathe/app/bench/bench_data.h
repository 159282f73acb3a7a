#pragma once
#include <optional>
#include <string>

#include "lathe/data/dataset.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// All rows of data_dir/trec/train_5500.label; empty if there is no such file or data_dir is "".
std::optional<TextDataset> read_trec(const std::string& data_dir);

/// The first 1,000 questions for training, and others to measure the accuracy.
struct Questions {
  TextDataset train, heldout;
  std::string origin;  ///< "trec", or "demo": made by the grammar of lathe demo
};

/// TREC's first 1,000 and last 452 rows if available, else as many questions of the demo.
Questions bench_questions(const std::string& data_dir);

/// A tokenizer for a model without one: that of data_dir/vocab/bert-base-uncased if the questions are TREC's,
/// else the demo's.
/// Errors: kNotFound.
Tokenizer bench_tokenizer(const std::string& data_dir, const Questions& questions);

}  // namespace lathe
