#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Gradients on the device: f32, except those of `rounded_count` elements from `first` on, which are bf16 and
/// apart.  `exact` holds the others, one after another.  `rounded` may be null.
struct Gradients {
  const float* exact;
  const void* rounded;
  int64_t exact_count, rounded_count, first;
};

/// Kernels over flat arenas of f32 on the device.  What changes from step to step is read from device memory:
/// keep, norm, loss [1], hyper [kHyperCount] (lathe/ops/optimizers/optimizer.h).  Launched on `stream`;
/// nothing waits. Workspaces are 16-byte aligned; their content before is of no matter.

/// total = keep · total + g; keep = 0 does not read total.
void accumulate(cudaStream_t stream, int64_t n, const float* keep, const float* g, float* total);

/// norm = √Σ g² times hyper's kInverseScale.  Infinite where a g² is: beyond 1.8e19.
void grad_norm(cudaStream_t stream, const Gradients& g, const float* hyper, float* norm, void* workspace);
size_t grad_norm_workspace_bytes(int64_t exact_count, int64_t rounded_count);

/// One update of p, m, v in place.  The first `decayed` elements have weight decay.  `rounded`, if not null,
/// gets p in storage `rounded_type`.  A norm or loss that is not finite leaves all four as they are.
struct AdamW {
  double beta1, beta2, eps, weight_decay;
  int64_t decayed;
};
void adamw(cudaStream_t stream, const AdamW& a, const Gradients& g, const float* norm, const float* loss,
           const float* hyper, float* p, float* m, float* v, void* rounded, DType rounded_type,
           void* workspace);
constexpr size_t kAdamwWorkspaceBytes = 64;

/// The same by gradient descent (op::sgd).  m is not touched without momentum.
struct Sgd {
  double momentum, weight_decay;
  bool nesterov;
  int64_t decayed;
};
void sgd(cudaStream_t stream, const Sgd& a, int64_t n, const float* g, const float* norm, const float* loss,
         const float* hyper, float* p, float* m);

}  // namespace lathe::cuda
