// The gated activation of ModernBERT and its derivative, one element per thread.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/elementwise.h"
#include "lathe/backends/cuda/kernels/gelu.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) geglu_kernel(int64_t n, int64_t cols, const T* x, T* y) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i >= n) return;
  const int64_t at = i + i / cols * cols;
  y[i] = from_float<T>(gelu(to_float(x[at])) * to_float(x[at + cols]));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    geglu_bwd_kernel(int64_t n, int64_t cols, const T* dy, const T* x, T* dx) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i >= n) return;
  const int64_t at = i + i / cols * cols;
  const float d = to_float(dy[i]), u = to_float(x[at]), gate = to_float(x[at + cols]);
  dx[at] = from_float<T>(d * gate * gelu_slope(u));
  dx[at + cols] = from_float<T>(d * gelu(u));
}

}  // namespace

void geglu(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, void* y) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    geglu_kernel<<<static_cast<unsigned>(ceil_div(n, kThreads)), kThreads, 0, stream>>>(
        n, cols, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void geglu_bwd(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* dy, const void* x,
               void* dx) {
  const int64_t n = rows * cols;
  if (n == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    geglu_bwd_kernel<<<static_cast<unsigned>(ceil_div(n, kThreads)), kThreads, 0, stream>>>(
        n, cols, static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx));
  });
}

}  // namespace lathe::cuda
