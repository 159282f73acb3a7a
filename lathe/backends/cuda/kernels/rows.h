#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/backends/cuda/kernels/dropout_rule.h"
#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Kernels over rows of a matrix.  All tensors lie on the device, dense and row-major; storage `t` is f32,
/// bf16 or f16, arithmetic and statistics are f32.  Everything is launched on `stream`; nothing waits.  Sums
/// run in a fixed order: the same bits every time.
struct RowsSize {
  int64_t rows, cols;
};

/// y = (x − mean) · rstd · gamma + beta.  x, y: [rows, cols]; gamma, beta: [cols]; mean, rstd: [rows].
void layer_norm(cudaStream_t stream, DType t, RowsSize s, const void* x, const float* gamma,
                const float* beta, float eps, void* y, float* mean, float* rstd);

}  // namespace lathe::cuda
