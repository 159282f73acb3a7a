#pragma once
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/ops/segment_weights.h"

namespace lathe::cuda {

/// Of packed rows: where they begin, and the first token of each that counts.
struct Segments {
  const int32_t *first, *cu;
};
/// y[b] = Σ weight(n) · x[n] from first[b] to before cu[b+1], 0 where there is none.  s: shape of y.
void segment_sum(cudaStream_t stream, DType t, RowsSize s, Segments rows, SegmentWeights weights,
                 const void* x, void* y);
/// dx: [tokens, s.cols]; 0 of tokens that do not count.  s: shape of dy.
void segment_sum_bwd(cudaStream_t stream, DType t, RowsSize s, Segments rows, SegmentWeights weights,
                     const void* dy, int64_t tokens, void* dx);
/// y[b]: by column the greatest such x[n], at: the first such n; 0 and −1 where there is none.
/// s: shape of y and at.
void segment_max(cudaStream_t stream, DType t, RowsSize s, Segments rows, const void* x, void* y,
                 int32_t* at);
/// dx: [tokens, s.cols], dy where `at` says, else 0.  s: shape of dy.
void segment_max_bwd(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const int32_t* at,
                     const void* dy, int64_t tokens, void* dx);
/// y = x / max(norm, eps), norm [s.rows].
void l2_normalize(cudaStream_t stream, DType t, RowsSize s, float eps, const void* x, void* y, float* norm);
/// dx = (dy − y ⟨y, dy⟩) / norm, or dy / eps where norm is not above eps.
void l2_normalize_bwd(cudaStream_t stream, DType t, RowsSize s, float eps, const void* dy, const void* y,
                      const float* norm, void* dx);

}  // namespace lathe::cuda
