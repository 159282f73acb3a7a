#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/io/tensor_view.h"

namespace lathe {

/// Where a torch tensor's elements lie in its storage.  All numbers are from 0, size and stride equally long.
struct StridedLayout {
  int64_t offset = 0;
  Shape size, stride;  ///< in elements

  /// Whether every element is in a storage of `elements`; false also when the numbers overflow.
  bool fits(int64_t elements) const;
  /// Whether the elements lie one after the other in row-major order.
  bool is_contiguous() const;

  // For a layout that fits `storage`, a tensor of one dimension.

  /// The elements where they are; needs is_contiguous.
  TensorView view(const TensorView& storage) const;
  /// A copy of the elements in row-major order.
  std::vector<std::byte> gather(const TensorView& storage) const;
};

}  // namespace lathe
