#pragma once
#include "lathe/program/program.h"

namespace lathe {

/// Constants of AdamW, with PyTorch's names and defaults.  What changes from step to step is data
/// (ops/optimizer.h).
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};

/// Flat tensors [P] of all trainable parameters and what goes with them; `decayed`: how many of the first
/// elements have weight decay.
struct OptimizerValues {
  Value parameters, gradients, exp_avg, exp_avg_sq;
  int64_t decayed = 0;
};

/// Appends norm, clipping and update; gives the norm [1] before clipping, of gradients without
/// loss scale.  `loss` [1] guards the update:
/// where it or the norm is not finite, nothing changes.  hyper: [kHyperCount] f32.
Value append_adamw(const OptimizerValues& values, Value loss, Value hyper, const AdamWOptions& options);

}  // namespace lathe
