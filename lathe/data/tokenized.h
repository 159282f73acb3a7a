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

/// Tokenised samples in one flat arena.  A sample has one row of tokens, or as many as first_rows says; row r
/// takes tokens [begins[r], begins[r+1]).
struct TokenizedDataset {
  std::vector<int32_t> input_ids;   ///< [tokens]
  std::vector<uint8_t> type_ids;    ///< [tokens] 0 or 1
  std::vector<int64_t> begins{0};   ///< [rows+1]
  std::vector<int32_t> uncut = {};  ///< [rows] tokens before truncation, or empty

  /// What a task learns from, for each sample or token: "labels", "start_positions" and so on (tasks/task.h).
  TensorList tensors = {};

  /// [samples+1] the first row of each sample, such as the endings of a question; empty: a row each.
  std::vector<int64_t> first_rows = {};

  /// [samples] numbers of a sample's texts, of which equal ones are kept apart (kNoDuplicates); empty: they
  /// are not.
  std::vector<std::vector<int32_t>> unlike_texts = {};

  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t size() const { return first_rows.empty() ? rows() : static_cast<int64_t>(first_rows.size()) - 1; }
  int64_t tokens() const { return begins.back(); }
  int64_t first_row(int64_t i) const { return first_rows.empty() ? i : first_rows[i]; }
  int64_t rows_of(int64_t i) const { return first_row(i + 1) - first_row(i); }
  int64_t first_token(int64_t i) const { return begins[first_row(i)]; }
  /// Tokens of a sample, of all its rows.
  int length(int64_t i) const { return static_cast<int>(first_token(i + 1) - first_token(i)); }
  std::span<const int32_t> ids(int64_t i) const {
    return {input_ids.data() + first_token(i), static_cast<size_t>(length(i))};
  }
  /// Tokens of every sample; what Sampler's kGroupByLength asks for.
  std::vector<int32_t> lengths() const;
  /// Tokens of every sample that are scored; empty: the data do not say which.
  std::vector<int32_t> scored() const;
  /// Tokens of the longest row, 0 if there are none.
  int longest() const;
  /// A row.  Of a tokenizer that gives models no types all are 0.
  void append(const Encoding& encoding, const Tokenizer& tokenizer);
  /// The rows after the last sample are one.
  void end_sample();
  /// Samples and tensors of all parts, in order; each part has the same tensors.
  void append(std::span<const TokenizedDataset> parts);
};

/// Texts to tokens, truncated longest first to max_length (special tokens included); labels come along where
/// there are any.
/// The result does not depend on the number of threads.
/// Errors: kUsage as Tokenizer::encode, and for pairs if some lack a text.
TokenizedDataset tokenize_dataset(const TextDataset& dataset, const Tokenizer& tokenizer, int max_length,
                                  ThreadPool& pool);

}  // namespace lathe
