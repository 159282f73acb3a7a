#pragma once
// One number from many: per block in f32 by pairs and in double beyond, then over the blocks, always in the
// same order.
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {

constexpr int kSumThreads = 256;
/// Vectors that a thread loads at once.
constexpr int kSumVectors = 4;
/// Blocks that are resident at once on a multiprocessor, and on 132 of them.
constexpr int kSumResident = 4;
constexpr int64_t kSumBlocks = 132 * kSumResident;

/// The sum over a block of at most 1024 threads (whole warps), in every thread.  Every thread calls it;
/// `scratch` (shared, one number per warp) is free for the next call when it returns.
template <typename T>
__device__ inline T block_sum(T x, T* scratch) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  T sum = 0;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) sum += scratch[w];
  __syncthreads();
  return sum;
}

/// Σ of terms over all n elements.  `terms.at<kWidth>(i, to)` gives those of elements i … i + kWidth − 1.
/// Blocks write their sums to `partial`; a single block writes finish(sum) to `out` if that is not null.
template <int kWidth, typename Terms, typename Finish>
__global__ void __launch_bounds__(kSumThreads, kSumResident)
    sum_kernel(int64_t n, Terms terms, Finish finish, double* partial, float* out) {
  follow();
  __shared__ double scratch[kSumThreads / kWarp];
  constexpr int64_t kStep = kSumThreads * kWidth;
  double sum = 0;
  for (int64_t first = kSumVectors * kStep * blockIdx.x + threadIdx.x * kWidth; first < n;
       first += kSumVectors * kStep * gridDim.x) {
    float t[kSumVectors][kWidth] = {};
    if (first + (kSumVectors - 1) * kStep + kWidth <= n) {
#pragma unroll
      for (int k = 0; k < kSumVectors; ++k) terms.template at<kWidth>(first + k * kStep, t[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kSumVectors; ++k) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          float one[1] = {0};
          if (first + k * kStep + j < n) terms.template at<1>(first + k * kStep + j, one);
          t[k][j] = one[0];
        }
      }
    }
#pragma unroll
    for (int half = kWidth / 2; half > 0; half /= 2)
#pragma unroll
      for (int k = 0; k < kSumVectors; ++k)
#pragma unroll
        for (int j = 0; j < half; ++j) t[k][j] += t[k][j + half];
    sum += static_cast<double>((t[0][0] + t[1][0]) + (t[2][0] + t[3][0]));
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1 && out != nullptr)
    *out = finish(sum);
  else
    partial[blockIdx.x] = sum;
}

/// *out = finish(Σ partial[0 … count)).  One block.
template <typename Finish>
__global__ void __launch_bounds__(kSumThreads)
    finish_kernel(int64_t count, const double* partial, Finish finish, float* out) {
  follow();
  __shared__ double scratch[kSumThreads / kWarp];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) sum += partial[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *out = finish(sum);
}

/// finish: the mean of n terms.
struct Mean {
  double n;
  __device__ float operator()(double sum) const { return static_cast<float>(sum / n); }
};

inline int64_t sum_blocks(int64_t n) {
  const int64_t blocks = ceil_div(n, kSumThreads * kSumVectors * 4);
  return blocks < 1 ? 1 : blocks < kSumBlocks ? blocks : kSumBlocks;
}
inline size_t sum_workspace_bytes(int64_t n) { return static_cast<size_t>(sum_blocks(n)) * sizeof(double); }

/// partial[0 … sum_blocks(n)): sums whose sum is that of all terms.
template <int kWidth, typename Terms>
void sum_in_parts(cudaStream_t stream, int64_t n, Terms terms, double* partial) {
  sum_kernel<kWidth>
      <<<static_cast<unsigned>(sum_blocks(n)), kSumThreads, 0, stream>>>(n, terms, Mean{1}, partial, nullptr);
}

/// *out = finish(Σ terms).  workspace: sum_workspace_bytes(n).  kWidth: 1, or 4 where addresses allow it.
template <int kWidth, typename Terms, typename Finish>
void sum_terms(cudaStream_t stream, int64_t n, Terms terms, Finish finish, float* out, void* workspace) {
  double* partial = static_cast<double*>(workspace);
  const int64_t blocks = sum_blocks(n);
  sum_kernel<kWidth>
      <<<static_cast<unsigned>(blocks), kSumThreads, 0, stream>>>(n, terms, finish, partial, out);
  if (blocks > 1) finish_kernel<<<1, kSumThreads, 0, stream>>>(blocks, partial, finish, out);
}

}  // namespace lathe::cuda
