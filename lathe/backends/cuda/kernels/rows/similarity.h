#pragma once
#include "lathe/backends/cuda/kernels/rows/rows.h"

namespace lathe::cuda {

/// How rows are compared: 0 Σ a · b, 1 √Σ (a − b + shift)², 2 Σ |a − b + shift|, 3 1 − Σ a · b.
struct Comparison {
  int kind;
  float shift;
};
/// s[i]: the score of a[i] and b[i].  size: shape of a.
void row_scores(cudaStream_t stream, RowsSize size, Comparison how, const float* a, const float* b, float* s);
void row_scores_bwd(cudaStream_t stream, RowsSize size, Comparison how, const float* ds, const float* a,
                    const float* b, const float* s, float* da, float* db);

/// loss = log(1 + Σ over ranks[i] < ranks[j] of e^(factor · (scores[i] − scores[j]))), and its derivatives.
void cosent(cudaStream_t stream, int64_t n, float factor, const float* scores, const int32_t* ranks,
            float* loss, float* dscores, void* workspace);
size_t cosent_workspace_bytes(int64_t n);

/// The mean of max(0, scores − other + margin) for triplets, else of
/// (other · s² + (1 − other) · max(0, margin − s)²) / 2, and its derivatives by both.
void pair_loss(cudaStream_t stream, int64_t n, bool triplets, float margin, const float* scores,
               const float* other, float* loss, float* dscores, float* dother);

/// y = factor · x.
void times(cudaStream_t stream, int64_t n, const float* x, const float* factor, float* y);

/// y [rows, to]: the first columns of x, or all of them and zeros.  size: shape of x.
void first_columns(cudaStream_t stream, RowsSize size, int64_t to, const float* x, float* y);

}  // namespace lathe::cuda
