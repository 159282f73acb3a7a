#pragma once
// The second half of sums over the rows of a matrix: what blocks of rows gave, added up in order.
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

/// One or two vectors of sums, `cols` each.
struct SumRows {
  int64_t cols;
  float *first, *second = nullptr;
};

/// Parts that a thread loads at once.
constexpr int kPartsAtOnce = 8;

/// Element c of all vectors, one behind another, = Σ partial[part][c], c < count.
static __global__ void __launch_bounds__(kWarp* kWarp)
    finish_sums_kernel(int parts, int64_t count, const float* partial, SumRows to) {
  follow();
  const int64_t c = int64_t{kWarp} * blockIdx.x + threadIdx.x;
  float sum = 0;
  for (int first = static_cast<int>(threadIdx.y); first < parts && c < count; first += kPartsAtOnce * kWarp) {
    float more[kPartsAtOnce];
#pragma unroll
    for (int k = 0; k < kPartsAtOnce; ++k)
      more[k] = first + k * kWarp < parts ? partial[(first + k * kWarp) * count + c] : 0.f;
#pragma unroll
    for (int k = 0; k < kPartsAtOnce; ++k) sum += more[k];
  }
  __shared__ float sums[kWarp][kWarp + 1];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);  // of column threadIdx.y
  const int64_t own = int64_t{kWarp} * blockIdx.x + threadIdx.y;
  if (threadIdx.x != 0 || own >= count) return;
  (own < to.cols ? to.first[own] : to.second[own - to.cols]) = sum;
}

/// partial: [parts][vectors][to.cols].
inline void finish_sums(cudaStream_t stream, int64_t parts, const float* partial, const SumRows& to) {
  const int64_t count = (to.second == nullptr ? 1 : 2) * to.cols;
  finish_sums_kernel<<<static_cast<unsigned>(ceil_div(count, kWarp)), dim3(kWarp, kWarp), 0, stream>>>(
      static_cast<int>(parts), count, partial, to);
}

}  // namespace lathe::cuda
