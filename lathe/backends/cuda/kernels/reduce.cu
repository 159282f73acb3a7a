// mean: the loss of a model without one.
#include "lathe/backends/cuda/kernels/reduce.cuh"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"

namespace lathe::cuda {
namespace {

template <typename T>
struct Elements {
  const T* x;
  template <int kWidth>
  __device__ void at(int64_t i, float (&to)[kWidth]) const {
    const Vec<T, kWidth> v = load_vec<kWidth>(x + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[j] = to_float(v.at[j]);
  }
};

template <typename T>
__global__ void __launch_bounds__(kSumThreads) mean_bwd_kernel(int64_t n, const float* dy, T* dx) {
  follow();
  const int64_t i = int64_t{kSumThreads} * blockIdx.x + threadIdx.x;
  if (i < n) dx[i] = from_float<T>(*dy / static_cast<float>(n));
}

}  // namespace

size_t mean_workspace_bytes(int64_t n) { return sum_workspace_bytes(n); }

void mean(cudaStream_t stream, DType t, int64_t n, const void* x, float* y, void* workspace) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const Elements<T> terms{static_cast<const T*>(x)};
    const Mean finish{static_cast<double>(n)};
    if (aligned16(x))
      sum_terms<4>(stream, n, terms, finish, y, workspace);
    else
      sum_terms<1>(stream, n, terms, finish, y, workspace);
  });
}

void mean_bwd(cudaStream_t stream, DType t, int64_t n, const float* dy, void* dx) {
  if (n == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto blocks = static_cast<unsigned>(ceil_div(n, kSumThreads));
    mean_bwd_kernel<<<blocks, kSumThreads, 0, stream>>>(n, dy, static_cast<T*>(dx));
  });
}

}  // namespace lathe::cuda
