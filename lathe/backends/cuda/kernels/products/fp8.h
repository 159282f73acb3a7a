#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Rows of x[rows, cols] as e4m3 with a scale each, by the rule of lathe/ops/linear_fp8.cc.  x: bf16, or f32,
/// which is rounded to bf16 first; value: [rows, cols], 16-byte aligned; scale: [rows].  cols is a multiple
/// of
/// 16.  Launched on `stream`; nothing waits.
void fp8_rows(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, uint8_t* value,
              float* scale);
/// The same of xᵀ: value: [cols, rows], scale: [cols].  rows, too, is a multiple of 16.
void fp8_columns(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, uint8_t* value,
                 float* scale);

}  // namespace lathe::cuda
