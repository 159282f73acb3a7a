#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lathe::cuda {

/// One tensor of an update by Adafactor (op::adafactor).
struct AdafactorTensor {
  int64_t rows, cols;  ///< rows 0: a vector
  const float* g;
  float *p, *kept;  ///< kept: [rows + cols]
  double weight_decay, clip_threshold;
};

/// Updates it on `stream`; tensors that follow one another may share the workspace.  norm, loss [1], hyper
/// [kHyperCount] (lathe/ops/optimizers/optimizer.h) are read on the device.  Sums are made in double, in one
/// order.
void adafactor(cudaStream_t stream, const AdafactorTensor& tensor, const float* norm, const float* loss,
               const float* hyper, void* workspace);
size_t adafactor_workspace_bytes(int64_t rows, int64_t cols);

}  // namespace lathe::cuda
