// add, mul, scale, cast, activations, mean.  Arithmetic in f32, rounded once.
#include <cmath>

#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/reduce.h"

namespace lathe::mlx {
namespace {

/// Applies `f` to the inputs as f32 and rounds the result to the output's dtype.
template <typename F>
Arrays in_f32(const Call& c, F f) {
  const mx::Dtype dtype = dtype_of(c.out_type(0).dtype);
  if constexpr (std::is_invocable_v<F, mx::array, mx::array>)
    return {mx::astype(f(f32(c[0]), f32(c[1])), dtype)};
  else
    return {mx::astype(f(f32(c[0])), dtype)};
}

Arrays run_add(const Call& c) { return {mx::add(c[0], c[1])}; }
Arrays run_mul(const Call& c) { return {mx::multiply(c[0], c[1])}; }
Arrays run_scale(const Call& c) {
  const mx::array factor = number(c.node.attrs.f("factor"));
  return in_f32(c, [&](const mx::array& x) { return mx::multiply(x, factor); });
}
Arrays run_cast(const Call& c) { return {mx::astype(c[0], dtype_of(c.out_type(0).dtype))}; }

mx::array positive(const mx::array& of, const mx::array& x) {
  return mx::where(mx::greater(of, mx::array(0, of.dtype())), x, mx::array(0, x.dtype()));
}
Arrays run_relu(const Call& c) { return {positive(c[0], c[0])}; }
Arrays run_relu_bwd(const Call& c) { return {positive(c[1], c[0])}; }

Arrays run_tanh(const Call& c) {
  return in_f32(c, [](const mx::array& x) { return mx::tanh(x); });
}
Arrays run_tanh_bwd(const Call& c) {
  return in_f32(c, [](const mx::array& dy, const mx::array& y) {
    return mx::multiply(dy, mx::subtract(number(1), mx::square(y)));
  });
}

/// e^(−x²/2)
mx::array bell(const mx::array& x) { return mx::exp(mx::multiply(number(-0.5), mx::square(x))); }

/// Φ(x).  MLX's erf is off by up to 4e-7, which results of two bytes do not show; it is one operation.  For
/// f32: Φ(−z) = e^(−z²/2) · t · P(t) with t = 1 / (1 + 0.35 z), P a minimax fit to 2⁻²⁴.
mx::array normal_cdf(const mx::array& x, DType result) {
  if (result != DType::f32)
    return mx::multiply(number(0.5), mx::add(number(1), mx::erf(mx::multiply(x, number(M_SQRT1_2)))));
  const mx::array t = mx::divide(number(1), mx::add(number(1), mx::multiply(number(0.35), mx::abs(x))));
  mx::array p = number(-2.915162323e-02);
  for (const double next : {1.439998902e-01, -2.557736241e-01, 1.592434014e-01, -2.315859542e-02,
                            1.055291623e-01, 1.198273630e-01, 1.398626518e-01, 1.396213580e-01})
    p = mx::add(mx::multiply(p, t), number(next));
  const mx::array tail = mx::multiply(bell(x), mx::multiply(t, p));
  return mx::where(mx::less(x, number(0)), tail, mx::subtract(number(1), tail));
}
Arrays run_gelu(const Call& c) {
  return in_f32(c, [&](const mx::array& x) { return mx::multiply(x, normal_cdf(x, c.out_type(0).dtype)); });
}

/// φ(x)
mx::array normal_density(const mx::array& x) {
  return mx::multiply(number(1 / std::sqrt(2 * M_PI)), bell(x));
}
/// Φ(x) + x · φ(x)
mx::array gelu_slope(const mx::array& x, DType result) {
  return mx::add(normal_cdf(x, result), mx::multiply(x, normal_density(x)));
}
Arrays run_gelu_bwd(const Call& c) {
  return in_f32(c, [&](const mx::array& dy, const mx::array& x) {
    return mx::multiply(dy, gelu_slope(x, c.out_type(0).dtype));
  });
}

Arrays run_gated(const Call& c) {
  const Arrays halves = mx::split(f32(c[0]), 2, -1);
  const mx::array gelu = mx::multiply(halves[0], normal_cdf(halves[0], c.out_type(0).dtype));
  return {mx::astype(mx::multiply(gelu, halves[1]), c.in_dtype(0))};
}
Arrays run_gated_bwd(const Call& c) {
  const DType result = c.out_type(0).dtype;
  const Arrays halves = mx::split(f32(c[1]), 2, -1);
  const mx::array &u = halves[0], dy = f32(c[0]);
  const mx::array du = mx::multiply(mx::multiply(dy, halves[1]), gelu_slope(u, result));
  const mx::array dgate = mx::multiply(dy, mx::multiply(u, normal_cdf(u, result)));
  return {mx::astype(mx::concatenate({du, dgate}, -1), c.in_dtype(0))};
}

bool is_gelu(const Node& node, const Program&) { return node.attrs.s("activation") == "gelu"; }

Arrays run_mean(const Call& c) {
  const double n = static_cast<double>(elements(c.in_type(0)));
  return {mx::divide(tree_sum(f32(c[0])), number(n))};
}
Arrays run_mean_bwd(const Call& c) {
  const double n = static_cast<double>(elements(c.out_type(0)));
  const mx::array dx = mx::astype(mx::divide(c[0], number(n)), dtype_of(c.out_type(0).dtype));
  return {mx::broadcast_to(dx, shape_of(c.out_type(0).shape))};
}

}  // namespace

std::vector<Entry> elementwise_entries() {
  return {{&op::add, "map", run_add},
          {&op::mul, "map", run_mul},
          {&op::scale, "map", run_scale},
          {&op::cast, "map", run_cast},
          {&op::relu, "map", run_relu},
          {&op::relu_bwd, "map", run_relu_bwd},
          {&op::tanh, "map", run_tanh},
          {&op::tanh_bwd, "map", run_tanh_bwd},
          {&op::gelu, "map", run_gelu, nullptr, working_bytes<0, 4, 12>},
          {&op::gelu_bwd, "map", run_gelu_bwd, nullptr, working_bytes<1, 4, 13>},
          {&op::gated, "halves", run_gated, is_gelu, working_bytes<0, 4, 5>},
          {&op::gated_bwd, "halves", run_gated_bwd, is_gelu, working_bytes<1, 12>},
          {&op::mean, "tree", run_mean},
          {&op::mean_bwd, "map", run_mean_bwd}};
}

}  // namespace lathe::mlx
