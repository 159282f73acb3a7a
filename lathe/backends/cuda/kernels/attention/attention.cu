// What the attention kernels have in common on the host, and the sums Σ dy∘y.
#include <type_traits>

#include "lathe/backends/cuda/kernels/attention/attention_dq.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_types.h"

namespace lathe::cuda {
namespace {

constexpr int kLanes = 8, kTokens = 32;  // lanes per head of a token, tokens per block

/// delta[h, n] = Σ dy∘y over head h of token n; blocks: tokens × heads.
template <typename T, int kStep>
__global__ void __launch_bounds__(kLanes* kTokens)
    delta_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy, const T* __restrict__ y,
                 float* __restrict__ delta) {
  follow();
  const int token = static_cast<int>(blockIdx.x * kTokens + threadIdx.x / kLanes),
            width = static_cast<int>(a.width);
  const int64_t head = blockIdx.y, from = (token * a.heads + head) * width;
  float sum = 0;
  if (token < a.tokens)
    for (int i = static_cast<int>(threadIdx.x % kLanes) * kStep; i < width; i += kLanes * kStep) {
      if constexpr (kStep == 8) {
        float u[8], v[8];
        load8(dy + from + i, u);
        load8(y + from + i, v);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += u[k] * v[k];
      } else {
        sum += to_float(dy[from + i]) * to_float(y[from + i]);
      }
    }
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (threadIdx.x % kLanes == 0 && token < a.tokens) delta[head * a.tokens + token] = sum;
}

}  // namespace

bool attention_on_tensor_cores(DType t, int64_t width, bool window) {
  if ((t != DType::bf16 && t != DType::f16) || width % 8 != 0) return false;
  if (window) return width > 32 && width <= 64;
  return width <= (block_has(DqShape<256>::kBytes) ? 256 : 128);
}

bool block_has(size_t bytes) {
  static const size_t most = [] {
    int device = 0, shared = 0;
    if (cudaGetDevice(&device) == cudaSuccess)
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return static_cast<size_t>(shared);
  }();
  return bytes + 1024 <= most;
}

size_t attention_bwd_workspace_bytes(int64_t tokens, int64_t heads) {
  return static_cast<size_t>(tokens * heads) * 2 * sizeof(float);
}

void attention_delta(cudaStream_t stream, const Attention& a, const void* dy, const void* y, float* delta) {
  const dim3 grid(static_cast<unsigned>(ceil_div(a.tokens, kTokens)), static_cast<unsigned>(a.heads));
  if (grid.x == 0) return;
  with_type(a.t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *u = static_cast<const T*>(dy), *v = static_cast<const T*>(y);
    if (a.width % 8 == 0 && aligned16(u, v))
      delta_kernel<T, 8><<<grid, kLanes * kTokens, 0, stream>>>(a, u, v, delta);
    else
      delta_kernel<T, 1><<<grid, kLanes * kTokens, 0, stream>>>(a, u, v, delta);
  });
}

void attention(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse) {
  if (a.t == DType::bf16) return attention_forward<__nv_bfloat16>(stream, a, qkv, y, lse);
  attention_forward<__half>(stream, a, qkv, y, lse);
}

void attention_bwd(cudaStream_t stream, cudaStream_t beside, const Attention& a, const void* dy,
                   const void* qkv, const void* y, const float* lse, void* dqkv, void* workspace) {
  if (a.t == DType::bf16)
    return attention_backward<__nv_bfloat16>(stream, beside, a, dy, qkv, y, lse, dqkv, workspace);
  attention_backward<__half>(stream, beside, a, dy, qkv, y, lse, dqkv, workspace);
}

}  // namespace lathe::cuda
