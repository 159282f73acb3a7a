#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/shape.h"

namespace lathe {

/// A dense row-major tensor in memory with another owner.  Little-endian; not necessarily aligned.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< elements(shape) × size_of(dtype)
};

/// Name → view, in the order of the names.
using TensorMap = std::map<std::string, TensorView, std::less<>>;

/// Converts to float: exact from f32, f16, bf16; f64, i64 and i32 round to nearest.  out: elements(shape).
void to_f32(const TensorView& tensor, float* out);

/// The elements where they lie, if they are all there, f32 and at an address fit for it; else null.
const float* as_f32(const TensorView& tensor);
/// All elements as float: where they lie (as_f32), else converted into `room`.
std::span<const float> f32_of(const TensorView& tensor, std::vector<float>& room);

/// Index of the first NaN or infinity; none in integer tensors.
std::optional<int64_t> find_non_finite(const TensorView& tensor);

}  // namespace lathe
