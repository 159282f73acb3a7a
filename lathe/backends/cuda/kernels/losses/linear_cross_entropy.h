#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// A chunk of the rows of a linear layer's logits [rows, classes], `ld` elements apart (a multiple of 8), at
/// addresses of 16 bytes.  All addresses lie on the device.  Launched on `stream`; nothing waits.  Sums run
/// in a fixed order: the same bits every time.
struct LogitRows {
  int64_t rows, classes, ld;
  const float* logits;
  const float* bias;      ///< [classes], is added to every row; or null
  const int32_t* labels;  ///< [rows]; a row whose label is no class does not count
  double smoothing;       ///< the share of a label that is spread evenly over all classes
};

/// Of every row: −log softmax at the smoothed label, log Σ exp(logits), and whether no class has a larger
/// logit than the label, and none before it the same; 0 in rows that do not count.
void score_rows(cudaStream_t stream, const LogitRows& rows, float* losses, float* lse, int32_t* right);
/// d = factor[0] · (softmax − smoothed one-hot) in storage t, rows `ld` elements apart; 0 in rows that do not
/// count.  d may be logits where t is f32.
void differentiate_rows(cudaStream_t stream, const LogitRows& rows, const float* lse, const float* factor,
                        DType t, void* d);
/// sums[j] = Σ over the rows of d[i · ld + j], j < cols, or that is added to it.
void sum_rows(cudaStream_t stream, DType t, int64_t rows, int64_t cols, int64_t ld, const void* d, bool add,
              float* sums);

/// Over all rows: loss[0] = Σ losses / the number of rows that count, correct[0] = Σ right.
void join_rows(cudaStream_t stream, int64_t rows, int64_t classes, const int32_t* labels, const float* losses,
               const int32_t* right, float* loss, int32_t* correct);
/// factor[0] = dloss[0] / the number of rows that count.
void factor_of_rows(cudaStream_t stream, int64_t rows, int64_t classes, const int32_t* labels,
                    const float* dloss, float* factor);

}  // namespace lathe::cuda
