#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/dtype.h"

namespace lathe {

using Shape = std::vector<int64_t>;

/// Product of the dimensions; 1 for the empty shape (a scalar).
int64_t elements(const Shape& shape);
/// "[8, 128, 768]"
std::string to_string(const Shape& shape);

/// Element type and dimensions of a dense row-major tensor.
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
};

int64_t elements(const Type& type);
size_t bytes_of(const Type& type);
/// "f32[8, 768]"
std::string to_string(const Type& type);

}  // namespace lathe
