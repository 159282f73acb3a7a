#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lathe {

enum class DType : uint8_t { f32, bf16, f16, i32, i64, u8, f64 };

/// Bytes of one element.
size_t size_of(DType dtype);
/// "f32", "bf16", ...
std::string_view name_of(DType dtype);
/// The dtype of that name; false if there is none.
bool dtype_of(std::string_view name, DType* dtype);

}  // namespace lathe
