#include "lathe/core/shape.h"

#include <fmt/format.h>

namespace lathe {

int64_t elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t elements(const Type& type) { return elements(type.shape); }

size_t bytes_of(const Type& type) { return static_cast<size_t>(elements(type.shape)) * size_of(type.dtype); }

std::string to_string(const Type& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_string(type.shape));
}

}  // namespace lathe
