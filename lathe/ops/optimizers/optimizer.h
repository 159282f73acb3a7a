#pragma once
#include "lathe/program/op.h"

namespace lathe {

namespace op {
extern const OpDef grad_norm, adamw;
}

/// Elements of the `hyper` input of grad_norm and of the optimizers: what changes from step to step.
enum class Hyper {
  kLearningRate,
  kBiasCorrection1,          ///< AdamW: 1 − β₁ᵗ
  kTake = kBiasCorrection1,  ///< sgd, adafactor: the share of what is new in what is kept
  kBiasCorrection2,          ///< AdamW: 1 − β₂ᵗ
  kMaxGradNorm,              ///< 0: no clipping
  kInverseScale,             ///< multiplies the gradients first: 1 / loss scale, 1 without one
};
constexpr int kHyperCount = 5;

/// What the gradients are multiplied by: the inverse scale, and what clips them to the greatest norm.
/// Source: torch.nn.utils.clip_grad_norm_, coefficient max_norm / (norm + 1e-6).
template <typename T>
double gradient_factor(const T* hyper, double norm) {
  const double most = hyper[static_cast<int>(Hyper::kMaxGradNorm)];
  const double clip = most > 0 && most < norm + 1e-6 ? most / (norm + 1e-6) : 1;
  return hyper[static_cast<int>(Hyper::kInverseScale)] * clip;
}

}  // namespace lathe
