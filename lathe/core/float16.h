#pragma once
#include <bit>
#include <cstdint>

namespace lathe {

/// bfloat16: the upper half of an IEEE binary32.  Storage only; arithmetic is done in float.
struct bf16 {
  uint16_t bits;
};
/// IEEE binary16.  Storage only.
struct f16 {
  uint16_t bits;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN (quiet), as VCVTNEPS2BF16 does, but keeps denormals.
inline bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1)) >> 16)};
}

float to_float(f16 x);
/// Rounds to nearest, ties to even; overflow gives infinity.
f16 to_f16(float x);

}  // namespace lathe
