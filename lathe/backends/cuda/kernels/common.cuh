#pragma once
// What the kernels share: storage types, vectors of eight elements, reductions in a fixed order, Philox.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// The first statement of every kernel: in a graph, its blocks may take their places while the kernel before
/// still runs (graph.h); nothing is read or written before that one is done.  Functions `…_that_follows` call
/// it later, after work that touches nothing that kernels write.  Source: CUDA programming guide,
/// "Programmatic dependent launch".
__device__ inline void follow() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <typename T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

/// Two at once.
__device__ inline __nv_bfloat162 from_floats(const __nv_bfloat16*, float x, float y) {
  return __floats2bfloat162_rn(x, y);
}
__device__ inline __half2 from_floats(const __half*, float x, float y) { return __floats2half2_rn(x, y); }

/// Eight neighbouring elements, loaded in pieces of 16 bytes.  The address is a multiple of 16
/// bytes.
template <typename T>
struct alignas(16) Vec8 {
  T at[8];
};

template <typename T>
__device__ inline void load8(const T* from, float (&to)[8]) {
  const Vec8<T> v = *reinterpret_cast<const Vec8<T>*>(from);
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = to_float(v.at[i]);
}

/// The sum over a warp, in every lane; the same bits in all of them.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

/// Philox4x32-7 of lathe/core/philox.h.
__device__ inline uint4 philox(uint4 c, uint32_t k0, uint32_t k1) {
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const uint32_t a_high = __umulhi(0xD2511F53u, c.x), a_low = 0xD2511F53u * c.x;
    const uint32_t b_high = __umulhi(0xCD9E8D57u, c.z), b_low = 0xCD9E8D57u * c.z;
    c = make_uint4(b_high ^ c.y ^ k0, b_low, a_high ^ c.w ^ k1, a_low);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Decision j (0 … 7) of one call: the 16 bits that are compared with the threshold.
__device__ inline uint32_t dropout_bits(const uint4& words, int j) {
  const uint32_t word = j / 2 == 0 ? words.x : j / 2 == 1 ? words.y : j / 2 == 2 ? words.z : words.w;
  return (word >> (16 * (j % 2))) & 0xffffu;
}

template <typename T>
constexpr DType type_of = std::is_same_v<T, float>           ? DType::f32
                          : std::is_same_v<T, __nv_bfloat16> ? DType::bf16
                                                             : DType::f16;

/// Calls f with a null pointer of the storage type: `with_type(dtype, [&](auto* t) { using T = ...; })`.
template <typename F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::bf16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case DType::f16:
      return f(static_cast<__half*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

/// All these addresses allow vectors of eight elements.
template <typename... P>
bool aligned16(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace lathe::cuda
