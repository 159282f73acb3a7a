#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lathe::cuda {

/// Losses on f32 and their derivatives; all addresses lie on the device.  Launched on `stream`; nothing
/// waits.  Sums run in a fixed order: the same bits every time.  Workspaces are 16-byte aligned; their
/// content before is of no matter.
struct ScoresSize {
  int64_t rows, cols;
};

/// loss[0] = mean over the rows whose label lies in [0, cols) of −log softmax(logits)[label]; 0 if there is
/// none.  logits: [rows, cols]; labels: [rows]; smoothing: the share of a label that is spread evenly over
/// all columns.
void cross_entropy(cudaStream_t stream, ScoresSize s, double smoothing, const float* logits,
                   const int32_t* labels, float* loss, void* workspace);
/// dlogits = dloss[0] · (softmax − smoothed one-hot) / count; 0 in the other rows.
void cross_entropy_bwd(cudaStream_t stream, ScoresSize s, double smoothing, const float* dloss,
                       const float* logits, const int32_t* labels, float* dlogits, void* workspace);

/// The same where the scores of row b (of `rows`) are logits[cu[b] … cu[b+1])[column]; targets[b] counts from
/// cu[b].  logits, dlogits: [s.rows, s.cols]; cu: [rows + 1].  All other elements of dlogits are 0.
void segment_cross_entropy(cudaStream_t stream, ScoresSize s, int64_t column, const float* logits,
                           int64_t rows, const int32_t* cu, const int32_t* targets, float* loss,
                           void* workspace);
void segment_cross_entropy_bwd(cudaStream_t stream, ScoresSize s, int64_t column, const float* dloss,
                               const float* logits, int64_t rows, const int32_t* cu, const int32_t* targets,
                               float* dlogits, void* workspace);
/// Of all four; rows: of labels or targets.
size_t cross_entropy_workspace_bytes(int64_t rows);

/// loss[0] = mean of (x − target)², and of log(1 + eˣ) − x · target, over n elements.
void mse(cudaStream_t stream, int64_t n, const float* x, const float* target, float* loss, void* workspace);
void bce_with_logits(cudaStream_t stream, int64_t n, const float* x, const float* target, float* loss,
                     void* workspace);
size_t pair_loss_workspace_bytes(int64_t n);
/// dx = dloss[0] times the derivative.
void mse_bwd(cudaStream_t stream, int64_t n, const float* dloss, const float* x, const float* target,
             float* dx);
void bce_with_logits_bwd(cudaStream_t stream, int64_t n, const float* dloss, const float* x,
                         const float* target, float* dx);

}  // namespace lathe::cuda
