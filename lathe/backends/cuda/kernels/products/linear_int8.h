#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// y = x · wᵀ + b in 8-bit integers, by the rule of lathe/ops/linear_int8.cc.  x: [m, k] and y: [m, n] in
/// storage `t`; w: [n, k], b: [n] or null, f32.  Any size, any address.  Launched on `stream`; nothing waits.
/// workspace: 16-byte aligned.
void linear_int8(cudaStream_t stream, DType t, int64_t m, int64_t n, int64_t k, const void* x, const float* w,
                 const float* b, void* y, void* workspace);
size_t linear_int8_workspace_bytes(int64_t m, int64_t n, int64_t k);

}  // namespace lathe::cuda
