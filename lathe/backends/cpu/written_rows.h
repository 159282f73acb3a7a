#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/program/program.h"

namespace lathe::cpu {

/// A table [rows, cols] within flat gradients.  Only the rows that something was added to have been written;
/// the others count as 0, whatever their memory holds.
struct WrittenRows {
  int64_t begin = 0;  ///< where the table begins, in elements
  int64_t cols = 0;
  std::vector<uint8_t> written;  ///< by row

  int64_t end() const { return begin + cols * static_cast<int64_t>(written.size()); }
  bool is_written(int64_t row) const { return written[static_cast<size_t>(row)] != 0; }
  size_t bytes() const { return static_cast<size_t>(end() - begin) * sizeof(float); }
  /// Whether the table is so large that most of its rows belong to no word of the texts, though hardly a big
  /// page is without a used row.  Then data kept by row takes less memory on small pages; AdamW takes a fifth
  /// longer for the rows that are used.
  bool is_sparse() const { return bytes() >= size_t{256} << 20; }

  /// f(from, to, row) on parts that together are [from, to): with row −1 outside the table; inside it with
  /// the row that the part belongs to.
  template <typename F>
  void for_parts(int64_t from, int64_t to, F f) const {
    while (from < to) {
      const bool inside = begin <= from && from < end();
      const int64_t row = inside ? (from - begin) / cols : -1;
      const int64_t stop = inside ? begin + (row + 1) * cols : from < begin ? begin : to;
      f(from, std::min(stop, to), row);
      from = std::min(stop, to);
    }
  }
};

/// A scatter_add_rows whose sums only grad_norm and adamw read, one after another with other gradients.
struct TableGradient {
  int scatter = -1;          ///< the node
  std::vector<int> readers;  ///< grad_norm and adamw
  int64_t begin = 0;         ///< where the table begins in what they read, in elements
};

/// The first such node of a large table; none if there is none.
TableGradient find_table_gradient(const Program& program);

}  // namespace lathe::cpu
