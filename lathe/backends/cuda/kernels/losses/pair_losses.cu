// Squared error and binary cross entropy: the mean of a term over all elements, and its derivative.
#include "lathe/backends/cuda/kernels/losses/losses.h"
#include "lathe/backends/cuda/kernels/reduce.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;

struct SquaredError {
  __device__ static float loss(float x, float target) { return (x - target) * (x - target); }
  __device__ static float slope(float x, float target) { return 2 * (x - target); }
};

struct BinaryCrossEntropy {
  __device__ static float loss(float x, float target) {
    return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))) - x * target;
  }
  __device__ static float slope(float x, float target) { return 1 / (1 + expf(-x)) - target; }
};

template <typename Loss>
struct Terms {
  const float *x, *target;
  template <int kWidth>
  __device__ void at(int64_t i, float (&to)[kWidth]) const {
    const Vec<float, kWidth> xs = load_vec<kWidth>(x + i), targets = load_vec<kWidth>(target + i);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[j] = Loss::loss(xs.at[j], targets.at[j]);
  }
};

template <typename Loss>
__global__ void __launch_bounds__(kThreads)
    slope_kernel(int64_t n, const float* dloss, const float* x, const float* target, float* dx) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i < n) dx[i] = *dloss / static_cast<float>(n) * Loss::slope(x[i], target[i]);
}

template <typename Loss>
void mean_loss(cudaStream_t stream, int64_t n, const float* x, const float* target, float* loss,
               void* workspace) {
  sum_terms<1>(stream, n, Terms<Loss>{x, target}, Mean{static_cast<double>(n)}, loss, workspace);
}

template <typename Loss>
void slope(cudaStream_t stream, int64_t n, const float* dloss, const float* x, const float* target,
           float* dx) {
  if (n == 0) return;
  slope_kernel<Loss>
      <<<static_cast<unsigned>(ceil_div(n, kThreads)), kThreads, 0, stream>>>(n, dloss, x, target, dx);
}

}  // namespace

size_t pair_loss_workspace_bytes(int64_t n) { return sum_workspace_bytes(n); }

void mse(cudaStream_t stream, int64_t n, const float* x, const float* target, float* loss, void* workspace) {
  mean_loss<SquaredError>(stream, n, x, target, loss, workspace);
}
void bce_with_logits(cudaStream_t stream, int64_t n, const float* x, const float* target, float* loss,
                     void* workspace) {
  mean_loss<BinaryCrossEntropy>(stream, n, x, target, loss, workspace);
}
void mse_bwd(cudaStream_t stream, int64_t n, const float* dloss, const float* x, const float* target,
             float* dx) {
  slope<SquaredError>(stream, n, dloss, x, target, dx);
}
void bce_with_logits_bwd(cudaStream_t stream, int64_t n, const float* dloss, const float* x,
                         const float* target, float* dx) {
  slope<BinaryCrossEntropy>(stream, n, dloss, x, target, dx);
}

}  // namespace lathe::cuda
