#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/dataset.h"
#include "lathe/data/tensor_list.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// Tokenised samples in one flat arena.  Sample i takes tokens [begins[i], begins[i+1]).
struct TokenizedDataset {
  std::vector<int32_t> input_ids;   ///< [tokens]
  std::vector<uint8_t> type_ids;    ///< [tokens] 0 or 1
  std::vector<int64_t> begins{0};   ///< [samples+1]
  std::vector<int32_t> uncut = {};  ///< [samples] tokens before truncation, or empty

  /// What a task learns from, for each sample or token: "labels", "start_positions" and so on (tasks/task.h).
  TensorList tensors = {};

  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t tokens() const { return begins.back(); }
  int length(int64_t i) const { return static_cast<int>(begins[i + 1] - begins[i]); }
  std::span<const int32_t> ids(int64_t i) const {
    return {input_ids.data() + begins[i], static_cast<size_t>(length(i))};
  }
  /// Tokens of every sample; what Sampler's kGroupByLength asks for.
  std::vector<int32_t> lengths() const;
  /// Tokens of every sample that are scored; empty: the data do not say which.
  std::vector<int32_t> scored() const;
  /// Tokens of the longest sample, 0 if there are no samples.
  int longest() const;
  /// Of a tokenizer that gives models no types all are 0.
  void append(const Encoding& encoding, const Tokenizer& tokenizer);
  /// Tokens, lengths and tensors of all parts, in order; each part has the same tensors.
  void append(std::span<const TokenizedDataset> parts);
};

/// Texts to tokens, truncated longest first to max_length (special tokens included); labels come along where
/// there are any.
/// The result does not depend on the number of threads.
/// Errors: kUsage as Tokenizer::encode, and for pairs if some lack a text.
TokenizedDataset tokenize_dataset(const TextDataset& dataset, const Tokenizer& tokenizer, int max_length,
                                  ThreadPool& pool);

}  // namespace lathe
