#include "lathe/io/torch/strided.h"

#include <cstring>

namespace lathe {

bool StridedLayout::fits(int64_t elements) const {
  int64_t count = 1, last = offset;
  bool overflow = false, empty = false;
  for (size_t i = 0; i < size.size(); ++i) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(count, size[i], &count);
    if (size[i] == 0) {
      empty = true;
      continue;
    }
    overflow |= __builtin_mul_overflow(size[i] - 1, stride[i], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  return !overflow && (empty || last < elements);
}

bool StridedLayout::is_contiguous() const {
  if (lathe::elements(size) == 0) return true;
  int64_t dense = 1;
  for (size_t i = size.size(); i-- > 0;) {
    if (size[i] > 1 && stride[i] != dense) return false;
    dense *= size[i];
  }
  return true;
}

TensorView StridedLayout::view(const TensorView& storage) const {
  const size_t element_bytes = size_of(storage.dtype), count = static_cast<size_t>(elements(size));
  if (count == 0) return {storage.dtype, size, {}};
  return {storage.dtype, size,
          storage.bytes.subspan(static_cast<size_t>(offset) * element_bytes, count * element_bytes)};
}

std::vector<std::byte> StridedLayout::gather(const TensorView& storage) const {
  const size_t element_bytes = size_of(storage.dtype), count = static_cast<size_t>(elements(size));
  std::vector<std::byte> out(count * element_bytes);
  Shape index(size.size(), 0);
  int64_t at = offset;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + i * element_bytes,
                storage.bytes.data() + static_cast<size_t>(at) * element_bytes, element_bytes);
    for (size_t d = size.size(); d-- > 0;) {
      if (size[d] == 1) continue;  // its stride may be any number
      at += stride[d];
      if (++index[d] < size[d]) break;
      at -= stride[d] * size[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace lathe
