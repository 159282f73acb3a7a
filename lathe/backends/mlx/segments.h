#pragma once
#include <limits>

#include "lathe/backends/mlx/lowering.h"

namespace lathe::mlx {

/// Of packed rows: which tokens they hold, f32 [B, N], and how many, f32 [B, 1], at least 1.
struct Segments {
  mx::array holds, tokens;
};
inline Segments segments_of(const mx::array& cu, int tokens) {
  const int rows = static_cast<int>(cu.size()) - 1;
  const mx::array begin = mx::reshape(mx::slice(cu, {0}, {rows}), {rows, 1});
  const mx::array end = mx::reshape(mx::slice(cu, {1}, {rows + 1}), {rows, 1});
  const mx::array token = mx::arange(tokens);
  return {f32(mx::logical_and(mx::less_equal(begin, token), mx::less(token, end))),
          f32(mx::maximum(mx::subtract(end, begin), mx::array(1)))};
}

/// Σ weights · x, weights [B, N], of which a row's are not 0 where it holds a token; x [N, c], f32.  In a
/// product, what is not finite in one row would make the others NaN: 0 · ∞.  So it is counted apart.
inline mx::array sum_of_segments(const mx::array& holds, const mx::array& weights, const mx::array& x) {
  const mx::array finite = mx::isfinite(x);
  const mx::array sum = mx::matmul(weights, mx::where(finite, x, number(0)));
  const mx::array broken = mx::matmul(holds, f32(mx::logical_not(finite)));
  return mx::where(mx::greater(broken, number(0)), number(std::numeric_limits<double>::quiet_NaN()), sum);
}

}  // namespace lathe::mlx
