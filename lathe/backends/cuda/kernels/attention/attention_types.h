#pragma once
#include "lathe/backends/cuda/kernels/attention/attention.h"

namespace lathe::cuda {

/// `attention` and `attention_bwd` on the tensor cores by type (__nv_bfloat16, __half), each in a file of its
/// own.
template <typename T>
void attention_forward(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse);
template <typename T>
void attention_backward(cudaStream_t stream, cudaStream_t beside, const Attention& a, const void* dy,
                        const void* qkv, const void* y, const float* lse, void* dqkv, void* workspace);

}  // namespace lathe::cuda
