#pragma once

namespace lathe {

/// Elements of the `hyper` input of grad_norm and adamw: what changes from step to step.
enum class Hyper {
  kLearningRate,
  kBiasCorrection1,  ///< 1 − β₁ᵗ
  kBiasCorrection2,  ///< 1 − β₂ᵗ
  kMaxGradNorm,      ///< 0: no clipping
  kInverseScale,     ///< multiplies the gradients first: 1 / loss scale, 1 without one
};
constexpr int kHyperCount = 5;

}  // namespace lathe
