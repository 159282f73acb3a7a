#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// sums[c] = Σ over the rows of x [rows, cols], dense, in storage `t`; sums in f32 and in a fixed order.  Any
/// address; multiples of 16 bytes and rows of a multiple of 8 elements are faster.  No rows: 0.
void column_sums(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, float* sums,
                 void* workspace);
/// Of its workspace.
size_t column_sums_workspace_bytes(int64_t rows, int64_t cols);

}  // namespace lathe::cuda
