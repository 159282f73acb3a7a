#pragma once

namespace lathe {

/// Elements of the `hyper` input of adamw: what changes from step to step.
enum class Hyper {
  kLearningRate,
  kBiasCorrection1,  ///< 1 − β₁ᵗ
  kBiasCorrection2,  ///< 1 − β₂ᵗ
  kMaxGradNorm,      ///< 0: no clipping
};
constexpr int kHyperCount = 4;

}  // namespace lathe
