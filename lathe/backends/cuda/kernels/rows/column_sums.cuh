#pragma once
// The second half of sums over the rows of a matrix: what blocks of rows gave, added up in order.
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

/// One or two vectors of sums, `cols` each.
struct SumRows {
  int64_t cols;
  float *first, *second = nullptr;
};

/// Element c of all vectors, one vector after another, = Σ partial[part][c], c < count.  A block: kCols
/// elements, 32 threads for each; every thread loads kAtOnce parts before it adds them up.
template <int kCols, int kAtOnce>
static __global__ void __launch_bounds__(kCols* kWarp)
    finish_sums_kernel(int parts, int64_t count, const float* partial, SumRows to) {
  follow();
  const int64_t c = int64_t{kCols} * blockIdx.x + threadIdx.x;
  float sum = 0;
  for (int first = static_cast<int>(threadIdx.y); first < parts && c < count; first += kAtOnce * kWarp) {
    float more[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      more[k] = first + k * kWarp < parts ? partial[(first + k * kWarp) * count + c] : 0.f;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum += more[k];
  }
  __shared__ float sums[kWarp][kCols + 1];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y * kCols + threadIdx.x), lane = thread % kWarp;
  sum = warp_sum(sums[lane][thread / kWarp]);
  const int64_t own = int64_t{kCols} * blockIdx.x + thread / kWarp;
  if (lane != 0 || own >= count) return;
  (own < to.cols ? to.first[own] : to.second[own - to.cols]) = sum;
}

/// partial: [parts][vectors][to.cols].
inline void finish_sums(cudaStream_t stream, int64_t parts, const float* partial, const SumRows& to) {
  const int64_t count = (to.second == nullptr ? 1 : 2) * to.cols;
  const auto launch = [&](auto kernel, int cols) {
    kernel<<<static_cast<unsigned>(ceil_div(count, cols)), dim3(cols, kWarp), 0, stream>>>(
        static_cast<int>(parts), count, partial, to);
  };
  if (parts <= 2 * kWarp)
    launch(finish_sums_kernel<kWarp, 2>, kWarp);
  else  // narrow blocks, so that all multiprocessors have some; each waits once for 576 parts
    launch(finish_sums_kernel<8, 18>, 8);
}

}  // namespace lathe::cuda
