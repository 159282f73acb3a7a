#pragma once
#include <cuda.h>

#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Row-major matrices [rows, cols] of bf16 or f16, as the copy engine is told of them
/// (cuTensorMapEncodeTiled) for products by groups of warps (warpgroup_product.cuh): boxes are swizzled, and
/// what is outside of the matrix is read as zero and not written.  cols is a multiple of 8, the address one
/// of 16.  Errors: those of the driver; CUDA_ERROR_NOT_SUPPORTED where it has no such call.

/// Boxes of `box_rows` (≤ 256) rows and 64 columns.
CUresult describe_boxes(CUtensorMap& map, const void* x, DType type, int64_t rows, int64_t cols,
                        int box_rows);
/// Boxes of 64 rows and `box_cols` columns, as panels of 64 columns one after another; cols is a multiple of
/// 64.
CUresult describe_panels(CUtensorMap& map, const void* x, DType type, int64_t rows, int64_t cols,
                         int box_cols);

}  // namespace lathe::cuda
