#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/retrieval/text_columns.h"
#include "lathe/data/tokenized.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

struct TextSampleOptions {
  int max_length = 0;                     ///< tokens of a text; longer ones are cut
  bool lowers = false;                    ///< texts become lower case
  std::vector<std::string> prompts = {};  ///< [columns] what comes before each text; empty: nothing
  bool keep_apart = false;                ///< no batch has a text twice (TokenizedDataset::unlike_texts)
};

/// A sample for each row of a table, with a row of tokens for each column.  The result does not depend on the
/// number of threads.
TokenizedDataset tokenize_columns(const TextColumns& columns, const Tokenizer& tokenizer,
                                  const TextSampleOptions& options, ThreadPool& pool);

/// Numbers of values in their order, from 0; equal ones have one number.
std::vector<int32_t> ranks_of_values(const std::vector<double>& values);

}  // namespace lathe
