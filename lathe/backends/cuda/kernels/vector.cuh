#pragma once
// Neighbouring elements as they are stored, which take fewer registers than as floats.
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
__device__ inline void store_vec(T* to, const float (&from)[kWidth]) {
  Vec<T, kWidth> v;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) v.at[i] = from_float<T>(from[i]);
  *reinterpret_cast<Vec<T, kWidth>*>(to) = v;
}

}  // namespace lathe::cuda
