#pragma once
// Neighbouring elements as they are stored, which take fewer registers than as floats.
#include <cstring>

#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

/// kWidth neighbouring elements, loaded and stored in pieces of 16 bytes, or as a whole where they are less.
template <typename T, int kWidth>
struct alignas(kWidth * sizeof(T) < 16 ? kWidth * sizeof(T) : 16) Vec {
  T at[kWidth];
};

template <int kWidth, typename T>
__device__ inline Vec<T, kWidth> load_vec(const T* from) {
  return *reinterpret_cast<const Vec<T, kWidth>*>(from);
}

template <typename T, int kWidth>
__device__ inline void store_vec(T* to, const Vec<T, kWidth>& from) {
  *reinterpret_cast<Vec<T, kWidth>*>(to) = from;
}

/// As they are stored.  Two at once take one fast instruction; a single one takes that of a special function.
template <typename T, int kWidth>
__device__ inline Vec<T, kWidth> round_vec(const float (&from)[kWidth]) {
  Vec<T, kWidth> v;
  if constexpr (sizeof(T) == 2 && kWidth % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      const auto pair = from_floats(static_cast<const T*>(nullptr), from[i], from[i + 1]);
      v.at[i] = pair.x, v.at[i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v.at[i] = from_float<T>(from[i]);
  }
  return v;
}

template <typename T, int kWidth>
__device__ inline void to_floats(const Vec<T, kWidth>& from, float (&to)[kWidth]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && kWidth % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {  // bf16 is the upper half of a float: one instruction for each
      uint32_t pair;
      memcpy(&pair, &from.at[i], sizeof(pair));
      to[i] = __uint_as_float(pair << 16);
      to[i + 1] = __uint_as_float(pair & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = to_float(from.at[i]);
  }
}

template <typename T, int kWidth>
__device__ inline void store_vec(T* to, const float (&from)[kWidth]) {
  store_vec(to, round_vec<T>(from));
}

}  // namespace lathe::cuda
