#include "lathe/io/tensor_view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/float16.h"

namespace lathe {
namespace {

// Those of bf16 and f16 are in float16.h.
float to_float(double x) { return static_cast<float>(x); }
float to_float(int64_t x) { return static_cast<float>(x); }
float to_float(int32_t x) { return static_cast<float>(x); }
float to_float(uint8_t x) { return static_cast<float>(x); }

/// Element i; the bytes may lie at any address.
template <typename T>
T load(const TensorView& tensor, int64_t i) {
  T x;
  std::memcpy(&x, tensor.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return x;
}

template <typename T>
void convert(const TensorView& tensor, float* out) {
  const int64_t n = elements(tensor.shape);
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(load<T>(tensor, i));
}

/// First element whose exponent bits are all ones.  A block at a time without a way out in between, which
/// compilers turn into vector code.
template <typename Bits>
std::optional<int64_t> find_full_exponent(const TensorView& tensor, Bits exponent) {
  constexpr int64_t kBlock = 4096;
  const int64_t n = elements(tensor.shape);
  const auto full = [&](int64_t i) { return (load<Bits>(tensor, i) & exponent) == exponent; };
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, n);
    Bits any = 0;
    for (int64_t i = begin; i < end; ++i) any |= static_cast<Bits>(full(i));
    for (int64_t i = begin; any != 0; ++i)
      if (full(i)) return i;
  }
  return std::nullopt;
}

}  // namespace

void to_f32(const TensorView& tensor, float* out) {
  if (tensor.bytes.size() != bytes_of(Type{tensor.dtype, tensor.shape}))
    fail(ErrorCode::kInternal, "to_f32: found {} bytes for {}", tensor.bytes.size(),
         to_string(Type{tensor.dtype, tensor.shape}));
  switch (tensor.dtype) {
    case DType::f32:
      if (!tensor.bytes.empty()) std::memcpy(out, tensor.bytes.data(), tensor.bytes.size());
      return;
    case DType::bf16:
      return convert<bf16>(tensor, out);
    case DType::f16:
      return convert<f16>(tensor, out);
    case DType::f64:
      return convert<double>(tensor, out);
    case DType::i64:
      return convert<int64_t>(tensor, out);
    case DType::i32:
      return convert<int32_t>(tensor, out);
    case DType::u8:
      return convert<uint8_t>(tensor, out);
  }
}

const float* as_f32(const TensorView& tensor) {
  const bool whole = tensor.bytes.size() == bytes_of(Type{tensor.dtype, tensor.shape});
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignof(float) == 0;
  return tensor.dtype == DType::f32 && whole && aligned ? reinterpret_cast<const float*>(tensor.bytes.data())
                                                        : nullptr;
}

std::span<const float> f32_of(const TensorView& tensor, std::vector<float>& room) {
  const auto count = static_cast<size_t>(elements(tensor.shape));
  if (const float* stored = as_f32(tensor)) return {stored, count};
  room.resize(count);
  to_f32(tensor, room.data());
  return room;
}

std::optional<int64_t> find_non_finite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::f32:
      return find_full_exponent<uint32_t>(tensor, 0x7f800000u);
    case DType::bf16:
      return find_full_exponent<uint16_t>(tensor, 0x7f80u);
    case DType::f16:
      return find_full_exponent<uint16_t>(tensor, 0x7c00u);
    case DType::f64:
      return find_full_exponent<uint64_t>(tensor, 0x7ff0000000000000u);
    default:
      return std::nullopt;
  }
}

}  // namespace lathe
