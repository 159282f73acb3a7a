#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Elementwise over n elements on the device; storage `t` is f32, bf16 or f16, arithmetic f32, rounded once.
/// An output may be its input.  Launched on `stream`; nothing waits.  Addresses that are no multiples of 16
/// bytes cost speed only.
void add(cudaStream_t stream, DType t, int64_t n, const void* a, const void* b, void* y);
void mul(cudaStream_t stream, DType t, int64_t n, const void* a, const void* b, void* y);
void scale(cudaStream_t stream, DType t, int64_t n, const void* x, float factor, void* y);
/// From storage `from` to storage `to`.  Not in place when they differ.
void cast(cudaStream_t stream, DType from, DType to, int64_t n, const void* x, void* y);

/// gelu is the exact form x · Φ(x); its derivative takes x, those of relu and tanh take y.
void relu(cudaStream_t stream, DType t, int64_t n, const void* x, void* y);
void relu_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* y, void* dx);
void tanh(cudaStream_t stream, DType t, int64_t n, const void* x, void* y);
void tanh_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* y, void* dx);
void gelu(cudaStream_t stream, DType t, int64_t n, const void* x, void* y);
void gelu_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* x, void* dx);

/// y[r, c] = gelu(x[r, c]) · x[r, cols + c]; y, dy: [rows, cols], x, dx: [rows, 2 · cols].  Not in place.
void geglu(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, void* y);
void geglu_bwd(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* dy, const void* x,
               void* dx);

/// y[0] = mean of the n elements of x.
void mean(cudaStream_t stream, DType t, int64_t n, const void* x, float* y, void* workspace);
size_t mean_workspace_bytes(int64_t n);
/// dx[i] = dy[0] / n.
void mean_bwd(cudaStream_t stream, DType t, int64_t n, const float* dy, void* dx);

}  // namespace lathe::cuda
