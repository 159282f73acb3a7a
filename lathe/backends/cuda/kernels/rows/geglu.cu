// The gated activation of ModernBERT and its derivative, one piece of a row per thread.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/kernels/rows/gelu.cuh"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;

/// y: n elements, `cols` in a row, which kWidth divides; rows of x are twice as long.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads) geglu_kernel(int64_t n, int64_t cols, const T* x, T* y) {
  follow();
  const int64_t i = (int64_t{kThreads} * blockIdx.x + threadIdx.x) * kWidth;
  if (i >= n) return;
  const int64_t at = i + i / cols * cols;
  float u[kWidth], gate[kWidth];
  to_floats(load_vec<kWidth>(x + at), u);
  to_floats(load_vec<kWidth>(x + at + cols), gate);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) u[j] = gelu(u[j]) * gate[j];
  store_vec(y + i, u);
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    geglu_bwd_kernel(int64_t n, int64_t cols, const T* dy, const T* x, T* dx) {
  follow();
  const int64_t i = (int64_t{kThreads} * blockIdx.x + threadIdx.x) * kWidth;
  if (i >= n) return;
  const int64_t at = i + i / cols * cols;
  float d[kWidth], u[kWidth], gate[kWidth];
  to_floats(load_vec<kWidth>(dy + i), d);
  to_floats(load_vec<kWidth>(x + at), u);
  to_floats(load_vec<kWidth>(x + at + cols), gate);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    gate[j] = d[j] * gate[j] * gelu_slope(u[j]);
    u[j] = d[j] * gelu(u[j]);
  }
  store_vec(dx + at, gate);
  store_vec(dx + at + cols, u);
}

/// Elements of a thread: as many as 16 bytes hold where rows and addresses allow it.
template <typename T>
constexpr int kVector = 16 / sizeof(T);

unsigned blocks_for(int64_t n, int width) {
  return static_cast<unsigned>(ceil_div(n, int64_t{kThreads} * width));
}

}  // namespace

void geglu(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, void* y) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = cols % kVector<T> == 0 && aligned16(x, static_cast<const void*>(y));
    const auto kernel = vectors ? geglu_kernel<kVector<T>, T> : geglu_kernel<1, T>;
    kernel<<<blocks_for(n, vectors ? kVector<T> : 1), kThreads, 0, stream>>>(
        n, cols, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void geglu_bwd(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* dy, const void* x,
               void* dx) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = cols % kVector<T> == 0 && aligned16(dy, x, static_cast<const void*>(dx));
    const auto kernel = vectors ? geglu_bwd_kernel<kVector<T>, T> : geglu_bwd_kernel<1, T>;
    kernel<<<blocks_for(n, vectors ? kVector<T> : 1), kThreads, 0, stream>>>(
        n, cols, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx));
  });
}

}  // namespace lathe::cuda
