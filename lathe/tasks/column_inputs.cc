#include "lathe/tasks/column_inputs.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

namespace lathe {

void ColumnInputs::set(std::span<const int32_t> first_rows, int rank) {
  first_rows_ = first_rows;
  rank_ = rank;
  ints_.clear();
  bias_.clear();
}

std::optional<std::span<const std::byte>> ColumnInputs::find(const std::string& name, int64_t size) {
  if (first_rows_.empty()) return {};
  const auto samples = static_cast<int32_t>(first_rows_.size()) - 1;
  const int32_t rows = first_rows_.back();
  if (name == kAnchorBias) {
    bias_.assign(static_cast<size_t>(size), 0);
    for (int32_t all = 0; all < size; all += rows)
      for (int32_t i = 0; i < samples; ++i)
        bias_[static_cast<size_t>(all + first_rows_[static_cast<size_t>(i)])] = -INFINITY;
    return std::as_bytes(std::span(bias_));
  }
  const bool is_column = name.starts_with(kColumn);
  int32_t of_row = 0, of_number = 0, offset = 0;  // value = of_row · first row + of_number · number + offset
  if (is_column) {
    of_row = 1, offset = std::atoi(name.c_str() + std::string_view(kColumn).size());
  } else if (name == kPositiveRows || name == kPositiveRowsOfAll) {
    of_row = 1, offset = 1 + (name == kPositiveRows ? 0 : rank_ * rows);
  } else if (name == kSampleNumbers || name == kSampleNumbersOfAll) {
    of_number = 1, offset = name == kSampleNumbers ? 0 : rank_ * samples;
  } else {
    return {};
  }
  std::vector<int32_t>& values = ints_[name];
  values.clear();
  for (int32_t i = 0; i < samples; ++i)
    values.push_back(of_row * first_rows_[static_cast<size_t>(i)] + of_number * i + offset);
  return std::as_bytes(std::span(values));
}

}  // namespace lathe
