#include "lathe/data/retrieval/text_samples.h"

#include <algorithm>

#include "lathe/data/parallel_parts.h"
#include "lathe/data/retrieval/no_duplicates.h"
#include "lathe/text/text.h"

namespace lathe {

TokenizedDataset tokenize_columns(const TextColumns& columns, const Tokenizer& tokenizer,
                                  const TextSampleOptions& options, ThreadPool& pool) {
  const EncodeOptions encoding{.max_length = options.max_length, .truncation = Truncation::kLongestFirst};
  const auto text_of = [&](size_t column, size_t row) {
    std::string text = (options.prompts.empty() ? "" : options.prompts[column]) + columns.texts[column][row];
    return options.lowers ? to_lower(text) : text;
  };
  const auto parts =
      parallel_parts<TokenizedDataset>(pool, static_cast<long>(columns.size()), [&](long begin, long end) {
        TokenizedDataset part;
        for (long i = begin; i < end; ++i) {
          for (size_t column = 0; column < columns.texts.size(); ++column)
            part.append(tokenizer.encode(text_of(column, static_cast<size_t>(i)), encoding), tokenizer);
          part.end_sample();
        }
        return part;
      });
  TokenizedDataset out;
  out.append(parts);
  if (options.keep_apart) out.unlike_texts = text_numbers(columns.texts);
  return out;
}

std::vector<int32_t> ranks_of_values(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<int32_t> ranks;
  for (const double value : values)
    ranks.push_back(
        static_cast<int32_t>(std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin()));
  return ranks;
}

}  // namespace lathe
