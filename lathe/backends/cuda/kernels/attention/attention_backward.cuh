#pragma once
// Launches of the backward kernels on the tensor cores.
#include <algorithm>

#include "lathe/backends/cuda/kernels/attention/attention_dkv.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_dq.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_ring.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_types.h"

namespace lathe::cuda {

/// Rows of more than `done` tokens; everything if that is 0.
template <typename T, int DP, int W, bool kDrop, bool kWindow>
void launch_backward(cudaStream_t stream, cudaStream_t beside, const Attention& a, const T* dy, const T* qkv,
                     const T* y, const float* lse, T* dqkv, int done) {
  using Dkv = DkvShape<DP, W>;
  using Dq = DqShape<DP>;
  launch_tiles<attention_dkv_kernel<T, DP, W, kDrop, kWindow>>(
      stream, blocks_of(a, Dkv::kKeys), Dkv::kThreads, Dkv::kBytes, a, dy, qkv, y, lse, dqkv, done);
  const int whole = std::max(done, Dkv::kKeys);
  if (a.longest > whole)
    launch_tiles<attention_dq_kernel<T, DP, kDrop, kWindow>>(beside, blocks_of(a, Dq::kQueries), Dq::kThreads,
                                                             Dq::kBytes, a, dy, qkv, y, lse, dqkv, whole);
}

template <typename T, int DP, bool kDrop, bool kWindow>
void launch_backward(cudaStream_t stream, cudaStream_t beside, const Attention& a, const T* dy, const T* qkv,
                     const T* y, const float* lse, T* dqkv, int done) {
  // Most rows fit a tile of 64 keys, which leaves fewer warps idle than 128; or for 128 there is no room.
  if constexpr (DP <= 64)
    if (a.tokens <= 64 * a.rows || !block_has(DkvShape<DP, 8>::kBytes))
      return launch_backward<T, DP, 4, kDrop, kWindow>(stream, beside, a, dy, qkv, y, lse, dqkv, done);
  launch_backward<T, DP, 8, kDrop, kWindow>(stream, beside, a, dy, qkv, y, lse, dqkv, done);
}

template <typename T, int DP, bool kWindow = false>
void launch_backward(cudaStream_t stream, cudaStream_t beside, const Attention& a, const T* dy, const T* qkv,
                     const T* y, const float* lse, T* dqkv, int done = 0) {
  if (a.dropout.threshold > 0)
    return launch_backward<T, DP, true, kWindow>(stream, beside, a, dy, qkv, y, lse, dqkv, done);
  launch_backward<T, DP, false, kWindow>(stream, beside, a, dy, qkv, y, lse, dqkv, done);
}

/// `attention_bwd` for one type.
template <typename T>
void attention_backward(cudaStream_t stream, cudaStream_t beside, const Attention& a, const void* dy,
                        const void* qkv, const void* y, const float* lse, void* dqkv, void* workspace) {
  const T *g = static_cast<const T*>(dy), *x = static_cast<const T*>(qkv), *out = static_cast<const T*>(y);
  T* to = static_cast<T*>(dqkv);
  if (a.window > 0) return launch_backward<T, 64, true>(stream, beside, a, g, x, out, lse, to);
  if (const int blocks = blocks_of_ring<T>(a); blocks > 0) {
    launch_ring(stream, blocks, a, g, x, out, lse, static_cast<float*>(workspace), to);
    const int done = blocks * kGroupTokens;
    if (a.longest > done) launch_backward<T, 64>(stream, beside, a, g, x, out, lse, to, done);
    return;
  }
  if (a.width <= 32) return launch_backward<T, 32>(stream, beside, a, g, x, out, lse, to);
  if (a.width <= 64) return launch_backward<T, 64>(stream, beside, a, g, x, out, lse, to);
  if (a.width <= 128) return launch_backward<T, 128>(stream, beside, a, g, x, out, lse, to);
  launch_backward<T, 256>(stream, beside, a, g, x, out, lse, to);
}

}  // namespace lathe::cuda
