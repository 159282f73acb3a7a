#include <cuda_fp8.h>

#include "lathe/backends/cuda/kernels/products/fp8.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

/// What a row is multiplied by, and the scale that takes it back.
struct Factors {
  float inverse, scale;
};

/// largest: of a row; infinity if a number of it is not finite.
__device__ inline Factors factors_of(float largest) {
  constexpr float kLargest = 448;
  if (!(largest < INFINITY)) return {0, __int_as_float(0x7fffffff)};
  if (largest < 0x1p-100f) return {0, 0};
  return {__fdiv_rn(kLargest, largest), __fdiv_rn(largest, kLargest)};
}

/// |v|, or infinity for NaN, which a maximum would pass over.
__device__ inline float magnitude_of(float v) { return isfinite(v) ? fabsf(v) : INFINITY; }

/// Four numbers; a row without a factor is zero, whatever is in it.
__device__ inline uint32_t to_e4m3(const float (&v)[4], float inverse) {
  if (inverse == 0) return 0;
  uint32_t both = 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const float2 pair = make_float2(__fmul_rn(v[i], inverse), __fmul_rn(v[i + 1], inverse));
    both |= uint32_t{__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)} << (8 * i);
  }
  return both;
}

/// kWidth elements as bf16 are; any address if !kAligned, else a multiple of 16 bytes.
template <int kWidth, bool kAligned, typename T>
__device__ inline void load_bf16(const T* from, float (&to)[kWidth]) {
  if constexpr (kAligned) {
    to_floats(load_vec<kWidth>(from), to);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = to_float(from[i]);
  }
  if constexpr (!std::is_same_v<T, __nv_bfloat16>) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = __bfloat162float(__float2bfloat16_rn(to[i]));
  }
}

/// A block takes a row; a thread keeps up to kKept pieces of it, and reads the pieces after those again.
constexpr int kRowThreads = 128, kRowWidth = 8, kKept = 4;

template <bool kAligned, typename T>
__global__ void __launch_bounds__(kRowThreads)
    rows_kernel(int64_t cols, const T* x, uint8_t* value, float* scale) {
  follow();
  __shared__ float of_warps[kRowThreads / kWarp];
  constexpr int64_t kStep = kRowThreads * kRowWidth;
  const T* row = x + blockIdx.x * cols;
  uint8_t* to = value + blockIdx.x * cols;
  const int64_t begin = int64_t{threadIdx.x} * kRowWidth;
  float kept[kKept][kRowWidth], largest = 0;
  const auto see = [&](const float(&v)[kRowWidth]) {
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) largest = fmaxf(largest, magnitude_of(v[i]));
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (begin + k * kStep < cols) {
      load_bf16<kRowWidth, kAligned>(row + begin + k * kStep, kept[k]);
      see(kept[k]);
    }
  for (int64_t c = begin + kKept * kStep; c < cols; c += kStep) {
    float v[kRowWidth];
    load_bf16<kRowWidth, kAligned>(row + c, v);
    see(v);
  }
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  for (const float of_warp : of_warps) largest = fmaxf(largest, of_warp);
  const Factors factors = factors_of(largest);
  if (threadIdx.x == 0) scale[blockIdx.x] = factors.scale;
  const auto write = [&](int64_t c, const float(&v)[kRowWidth]) {
    const float low[4] = {v[0], v[1], v[2], v[3]}, high[4] = {v[4], v[5], v[6], v[7]};
    *reinterpret_cast<uint2*>(to + c) =
        make_uint2(to_e4m3(low, factors.inverse), to_e4m3(high, factors.inverse));
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (begin + k * kStep < cols) write(begin + k * kStep, kept[k]);
  for (int64_t c = begin + kKept * kStep; c < cols; c += kStep) {
    float v[kRowWidth];
    load_bf16<kRowWidth, kAligned>(row + c, v);
    write(c, v);
  }
}

/// A block takes kStrip columns; a thread four rows of them at once, so that a warp writes 128 bytes of each
/// column.  The second reading finds the strip in cache.
constexpr int kStrip = 16, kStripThreads = 256, kRowsAtOnce = 4;

template <bool kAligned, typename T>
__global__ void __launch_bounds__(kStripThreads)
    columns_kernel(int64_t rows, int64_t cols, const T* x, uint8_t* value, float* scale) {
  follow();
  __shared__ float of_warps[kStripThreads / kWarp][kStrip];
  const int64_t first = int64_t{kStrip} * blockIdx.x;
  const T* strip = x + first;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  float largest[kStrip] = {};
  for (int64_t r = threadIdx.x; r < rows; r += kStripThreads) {
    float v[kStrip];
    load_bf16<kStrip, kAligned>(strip + r * cols, v);
#pragma unroll
    for (int c = 0; c < kStrip; ++c) largest[c] = fmaxf(largest[c], magnitude_of(v[c]));
  }
#pragma unroll
  for (int c = 0; c < kStrip; ++c) {
    largest[c] = warp_max(largest[c]);
    if (lane == 0) of_warps[warp][c] = largest[c];
  }
  __syncthreads();
  float inverse[kStrip];
#pragma unroll
  for (int c = 0; c < kStrip; ++c) {
    float all = 0;
    for (const auto& of_warp : of_warps) all = fmaxf(all, of_warp[c]);
    const Factors factors = factors_of(all);
    inverse[c] = factors.inverse;
    if (threadIdx.x == 0) scale[first + c] = factors.scale;
  }
  for (int64_t r = int64_t{threadIdx.x} * kRowsAtOnce; r < rows; r += kStripThreads * kRowsAtOnce) {
    float v[kRowsAtOnce][kStrip];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) load_bf16<kStrip, kAligned>(strip + (r + k) * cols, v[k]);
#pragma unroll
    for (int c = 0; c < kStrip; ++c) {
      const float column[kRowsAtOnce] = {v[0][c], v[1][c], v[2][c], v[3][c]};
      *reinterpret_cast<uint32_t*>(value + (first + c) * rows + r) = to_e4m3(column, inverse[c]);
    }
  }
}

/// Calls f(x, whether its pieces are aligned) with the storage type.
template <typename F>
void with_storage(DType t, const void* x, F f) {
  const auto with = [&](auto* typed) {
    if (aligned16(typed))
      f(typed, std::true_type());
    else
      f(typed, std::false_type());
  };
  if (t == DType::bf16)
    with(static_cast<const __nv_bfloat16*>(x));
  else
    with(static_cast<const float*>(x));
}

}  // namespace

void fp8_rows(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, uint8_t* value,
              float* scale) {
  if (rows == 0) return;
  with_storage(t, x, [&](auto* from, auto aligned) {
    rows_kernel<aligned.value>
        <<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(cols, from, value, scale);
  });
}

void fp8_columns(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, uint8_t* value,
                 float* scale) {
  with_storage(t, x, [&](auto* from, auto aligned) {
    columns_kernel<aligned.value>
        <<<static_cast<unsigned>(cols / kStrip), kStripThreads, 0, stream>>>(rows, cols, from, value, scale);
  });
}

}  // namespace lathe::cuda
