#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

/// What losses over the vectors of texts read of a batch whose samples are rows of a table, a text for each
/// of its columns, on top of nn::Inputs.  Of ranks that train together the batches are of one size, and their
/// rows and samples follow each other by rank.
inline constexpr const char *kColumn = "column_",  ///< and a number from 0: [S] its row of each sample
    *kAnchorBias = "anchor_bias",  ///< [B] or, of all ranks, [ranks · B], f32: −∞ where column 0 is, else 0
        *kPositiveRows = "positive_rows",                  ///< [S] the row of column 1 of each sample
            *kPositiveRowsOfAll = "positive_rows_of_all",  ///< the same among the rows of all ranks
                *kSampleNumbers = "sample_numbers",        ///< [S] 0, 1, 2 …
                    *kSampleNumbersOfAll =
                        "sample_numbers_of_all";  ///< the same among the samples of all ranks

/// Makes these from where samples begin.
class ColumnInputs {
 public:
  /// first_rows: [S+1], lives until the next call; empty: samples have a row each.
  void set(std::span<const int32_t> first_rows, int rank);
  /// The bytes of an input of so many elements, valid until the next `set`; none for another name.
  std::optional<std::span<const std::byte>> find(const std::string& name, int64_t size);

 private:
  std::span<const int32_t> first_rows_;
  int rank_ = 0;
  std::map<std::string, std::vector<int32_t>> ints_;
  std::vector<float> bias_;
};

}  // namespace lathe
