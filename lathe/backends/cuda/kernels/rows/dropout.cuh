#pragma once
// The decisions of dropout (lathe/core/philox.h) for neighbouring columns.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/dropout_rule.h"

namespace lathe::cuda {

/// Decides for one row.
struct DropoutRow {
  uint32_t seed, step, position, sample, site, threshold;
  float scale;

  /// Columns col … col + kWidth − 1: eight from a multiple of eight on, which is one call, or a single one.
  template <int kWidth>
  __device__ void apply(int64_t col, float (&x)[kWidth]) const {
    static_assert(kWidth == 8 || kWidth == 1);
    if (threshold == 0) return;
    const uint4 words =
        philox(make_uint4(static_cast<uint32_t>(col / 8), position, sample, site), seed, step);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const int decision = kWidth == 8 ? j : static_cast<int>(col % 8);
      x[j] = dropout_bits(words, decision) < threshold ? 0.f : x[j] * scale;
    }
  }
};

/// Dropout of a matrix.  With threshold 0, rng and ids are not read; positions may be null: 0.
struct DropoutSite {
  DropoutRule rule;
  const int32_t *sample_ids, *positions;

  __device__ DropoutRow row(int64_t r) const {
    if (rule.threshold == 0) return {0, 0, 0, 0, 0, 0, 1.f};
    return {rule.rng[0],
            rule.rng[1],
            positions == nullptr ? 0u : static_cast<uint32_t>(positions[r]),
            static_cast<uint32_t>(sample_ids[r]),
            rule.site,
            rule.threshold,
            rule.scale};
  }
};

}  // namespace lathe::cuda
