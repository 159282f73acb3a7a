#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

// From texts to samples, as run_mlm.py does it (that of transformers 4.57; datasets 5.2).

/// Tokens of texts or of samples, one row after the other: row i takes [begins[i], begins[i+1]).
struct TextRows {
  std::vector<int32_t> ids;        ///< [tokens]
  std::vector<uint8_t> special;    ///< [tokens] special_tokens_mask: 1 where the tokenizer put a token in
  std::vector<int64_t> begins{0};  ///< [rows+1]
  int64_t cut_rows = 0;            ///< rows that were truncated

  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }
  std::span<const int32_t> row(int64_t i) const {
    return std::span(ids).subspan(static_cast<size_t>(begins[i]),
                                  static_cast<size_t>(begins[i + 1] - begins[i]));
  }
};

/// The lines of a text file as load_dataset("text") reads them: ended by \n, \r\n or \r, and by no other
/// separator; the last one needs no end. Blank lines are lines. A byte order mark stays.
std::vector<std::string_view> lines_of(std::string_view file);

/// Rows [begin, end).
struct RowRange {
  int64_t begin, end;
  bool operator==(const RowRange&) const = default;
};
struct ValidationSplit {
  RowRange validation, train;
};
/// `train[:percent%]` and `train[percent%:]`, for data without a validation split: the first rows, before
/// blank lines are left out. The border is rounded to the nearest row, halves to even. Errors: kUsage for a
/// percentage outside 0 to 100.
ValidationSplit split_validation(int64_t rows, int percent);

/// max_seq_length in tokens. `wanted` 0: none was named, and 1,024 are taken. Never more than the tokenizer's
/// model_max_length, INT32_MAX where it has none. Errors: kUsage below 0.
int sequence_length(int wanted, int model_max_length);

/// --line_by_line: the texts that are not empty or all white space (Python's str.isspace).
std::vector<std::string_view> texts_with_words(std::span<const std::string_view> texts);

/// Each text with its special tokens. max_length: of --line_by_line, longer ones are truncated; 0 before
/// group_texts, where none is.  The result does not depend on the number of threads.
/// Errors: kUsage as Tokenizer::encode.
TextRows tokenize_texts(std::span<const std::string_view> texts, const Tokenizer& tokenizer, int max_length,
                        ThreadPool& pool);

/// Without --line_by_line: the texts of each 1,000 one after the other, special tokens included, cut into
/// samples of `length` tokens. What is left at the end of each 1,000 is dropped, so that fewer than `length`
/// tokens give no sample. (Older scripts, as of transformers 4.22, kept a short sample where all of a 1,000
/// had fewer; with --preprocessing_num_workers each worker counts its own thousands; here there is one.)
/// Errors: kUsage for a length below 1.
TextRows group_texts(const TextRows& texts, int length);

}  // namespace lathe
