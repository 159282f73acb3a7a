#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/backends/cuda/kernels/rows/dropout_rule.h"
#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Kernels over rows of a matrix.  All tensors lie on the device, dense and row-major; storage `t` is f32,
/// bf16 or f16, arithmetic and statistics are f32.  Everything is launched on `stream`; nothing waits.  Sums
/// run in a fixed order: the same bits every time.  Addresses that are no multiples of 16 bytes, and rows
/// that are no multiples of 8 elements, cost speed only.  Workspaces are 16-byte aligned; with any content.
struct RowsSize {
  int64_t rows, cols;
};

/// y = (x − mean) · rstd · gamma + beta.  x, y: [rows, cols]; gamma, beta: [cols]; mean, rstd: [rows].
/// beta may be null: 0.
void layer_norm(cudaStream_t stream, DType t, RowsSize s, const void* x, const float* gamma,
                const float* beta, float eps, void* y, float* mean, float* rstd);

/// sum = r + dropout(x), rounded to its storage, and y, mean, rstd = layer_norm(sum).  sample_ids, positions:
/// [rows]; positions may be null: 0.  With rule.threshold 0, sum = r + x, and rng and ids are not read.
void dropout_add_layer_norm(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                            const int32_t* sample_ids, const int32_t* positions, const void* x, const void* r,
                            const float* gamma, const float* beta, float eps, void* sum, void* y, float* mean,
                            float* rstd);

/// sum[i] = word[ids[i]] + token_type[type_ids[i]] + position[position_ids[i]] in f32, and y, mean, rstd =
/// layer_norm(sum).  s: shape of y.  Every id must be a row of its table.
struct Embeddings {
  DType dtype;  ///< of the tables
  const void *word, *token_type, *position;
  const int32_t *ids, *type_ids, *position_ids;
};
void embed_layer_norm(cudaStream_t stream, RowsSize s, const Embeddings& e, const float* gamma,
                      const float* beta, float eps, float* sum, float* y, float* mean, float* rstd);

/// The same, and z = dropout(y) in bf16 instead of y.
void embed_layer_norm_dropout(cudaStream_t stream, RowsSize s, const Embeddings& e, const float* gamma,
                              const float* beta, float eps, const DropoutRule& rule,
                              const int32_t* sample_ids, const int32_t* positions, float* sum, void* z,
                              float* mean, float* rstd);

/// dx: [rows, cols] (may be dy), past added to it unless that is null, and parts of the sums of columns in
/// the workspace.  Returns their number.
int64_t layer_norm_bwd(cudaStream_t stream, DType t, RowsSize s, const void* dy, const void* x,
                       const float* gamma, const float* mean, const float* rstd, const void* past, void* dx,
                       void* workspace);
size_t layer_norm_bwd_workspace_bytes(RowsSize s);
/// dgamma, dbeta: [cols], from these parts.  No rows: 0.
void layer_norm_bwd_sums(cudaStream_t stream, int64_t cols, int64_t parts, const void* workspace,
                         float* dgamma, float* dbeta);

/// The same, and dd = dropout(dx): the gradients of r and x of dropout_add_layer_norm.
int64_t layer_norm_dropout_bwd(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                               const int32_t* sample_ids, const int32_t* positions, const void* dy,
                               const void* x, const float* gamma, const float* mean, const float* rstd,
                               void* dx, void* dd, void* workspace);

/// y = dropout(x) in f32, x in `t`.
void dropout_cast(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                  const int32_t* sample_ids, const int32_t* positions, const void* x, float* y);

/// y = dropout(x), or residual + dropout(x) where residual is not null.  y may be x or residual.
void dropout(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule, const int32_t* sample_ids,
             const int32_t* positions, const void* x, const void* residual, void* y);

/// y = x with q and k of every head turned by the row's position: [N, 3, H, D], D = 2 · half.  back: by the
/// negative angle.
struct Turn {
  static constexpr int kMostPairs = 128;
  int heads, half;  ///< half ≤ kMostPairs
  bool back;
  const int32_t* positions;
  float frequencies[kMostPairs];
};
void rotary(cudaStream_t stream, DType t, int64_t tokens, const Turn& turn, const void* x, void* y);

/// y[b]: the mean of the rows of x from cu[b] to before cu[b+1], 0 where there is none.  s: shape of y.
void segment_mean(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const void* x, void* y);
/// dx: [tokens, s.cols]; 0 after the last row.  s: shape of dy.
void segment_mean_bwd(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const void* dy,
                      int64_t tokens, void* dx);

/// y[i] = table[ids[i]]; s: shape of y.  Every id must be a row of the table.
void gather_rows(cudaStream_t stream, DType t, RowsSize s, const void* table, const int32_t* ids, void* y);
/// The same in f32, of a table of type t.
void look_up(cudaStream_t stream, DType t, RowsSize s, const void* table, const int32_t* ids, float* y);

/// The order in which scatter_add_rows takes rows: of ascending id, and of one id as they lie.
void sort_rows(cudaStream_t stream, int64_t rows, const int32_t* ids, int64_t table_rows, void* order);
size_t sort_rows_bytes(int64_t rows);

/// dtable[v] = Σ dy[i] over ids[i] = v, of pieces of ascending i; 0 if there is none and for v = padding.
/// s: shape of dy, in storage `from`; dtable: [table_rows, s.cols] in storage `to`; order: sort_rows of the
/// ids.
void scatter_add_rows(cudaStream_t stream, DType from, DType to, RowsSize s, const void* dy,
                      const void* order, int64_t table_rows, int64_t padding, void* dtable, void* workspace);
size_t scatter_add_rows_workspace_bytes(RowsSize s);

}  // namespace lathe::cuda
