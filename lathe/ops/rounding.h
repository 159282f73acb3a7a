#pragma once
#include <cmath>

#include "lathe/core/float16.h"
#include "lathe/program/op.h"

// What references share: how operands are rounded, and what of attention's probabilities is dropped.

namespace lathe::op {

/// w as products of that dtype read an f32 weight.
inline double rounded(double w, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(static_cast<float>(w)));
  if (dtype == DType::f16) return to_float(to_f16(static_cast<float>(w)));
  return w;
}

/// Products of bf16 and f16 tensors may take factors that were computed on the way, as probabilities, rounded
/// to that dtype, as PyTorch does: each term x of a sum then is x (1 + δ), |δ| ≤ u, which moves the sum by at
/// most u Σ|x|, and its rounded value by (1 + u) times that.  u is 2⁻⁸ or 2⁻¹¹; f16 also has no finer steps
/// than 2⁻²⁴, so that a rounded factor may be off by 2⁻²⁵ however small it is.  The results are these as
/// parts of `magnitude`, of which the bound allows ulp · 2⁻²⁴ · √terms.
struct OperandRounding {
  double relative = 0;  ///< times |x|
  double absolute = 0;  ///< times the other factor of x
};
inline OperandRounding operand_rounding(DType dtype, double ulp, double terms) {
  if (dtype == DType::f32) return {};
  const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const double allowed = ulp * 0x1p-24 * std::sqrt(terms);
  return {unit * (1 + unit) / allowed, dtype == DType::f16 ? 0x1p-25 * (1 + unit) / allowed : 0};
}

/// What one head's probability of a key is multiplied with by dropout of a row's attention: 0 if dropped,
/// else 1 / (1 − p).  rng: seed and step.
double attention_mask(const Attrs& attrs, double row_id, const std::vector<double>& rng, int64_t head,
                      int64_t query, int64_t key);

}  // namespace lathe::op
