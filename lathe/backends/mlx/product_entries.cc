// Linear layers: sums in f32.  A weight is read rounded to the dtype of the activations; one in that dtype is
// read where it lies, because `astype` gives it back.
#include <algorithm>

#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_int8.h"

namespace lathe::mlx {
namespace {

mx::array shaped(const Call& c, int output, const mx::array& x) {
  return mx::reshape(x, shape_of(c.out_type(output).shape));
}

/// MLX on CUDA rounds such a product before it adds the bias: its library takes only rows of whole 16 bytes.
constexpr int kAligned = 8;

Arrays run_linear(const Call& c) {
  const mx::array x = c.matrix(0), w = mx::transpose(mx::astype(c[1], x.dtype()));
  if (!c.has(2)) return {shaped(c, 0, mx::matmul(x, w))};
  if (c.cols(0) % kAligned != 0)
    return {shaped(c, 0, mx::astype(mx::addmm(f32(c[2]), f32(x), f32(w)), x.dtype()))};
  return {shaped(c, 0, mx::addmm(mx::astype(c[2], x.dtype()), x, w))};
}

Arrays run_linear_bwd_input(const Call& c) {
  const mx::array dy = c.matrix(0);
  return {shaped(c, 0, mx::matmul(dy, mx::astype(c[1], dy.dtype())))};
}

/// MLX gives a product the dtype of its operands; these sums stay in f32.
Arrays run_linear_bwd_weight(const Call& c) {
  const mx::array dy = f32(c.matrix(0)), x = f32(c.matrix(1));
  return {mx::matmul(mx::transpose(dy), x), mx::sum(dy, 0)};
}

/// For a weight whose dtype differs from that of the activations: a copy in their dtype.
size_t rounded_weight(const Node& node, const Program& program) {
  const Type &x = program.type(node.in[0]), &w = program.type(node.in[1]);
  return x.dtype == w.dtype ? 0 : bytes_of({x.dtype, w.shape});
}
size_t widened_operands(const Node& node, const Program& program) {
  const Type &dy = program.type(node.in[0]), &x = program.type(node.in[1]);
  return dy.dtype == DType::f32 ? 0 : bytes_of({DType::f32, dy.shape}) + bytes_of({DType::f32, x.shape});
}

// ---- linear_int8: the rule stands in lathe/ops/linear_int8.cc

mx::array bits_of(const mx::array& x) { return mx::view(x, mx::uint32); }

/// Mantissa, with its leading one, of finite normal x as u64, and the exponent e of x = mantissa · 2^(e −
/// 150).
std::pair<mx::array, mx::array> taken_apart(const mx::array& x) {
  const mx::array bits = bits_of(x);
  const mx::array mantissa = mx::bitwise_or(mx::bitwise_and(bits, mx::array(0x7fffffu, mx::uint32)),
                                            mx::array(0x800000u, mx::uint32));
  const mx::array exponent =
      mx::bitwise_and(mx::right_shift(bits, mx::array(23u, mx::uint32)), mx::array(0xffu, mx::uint32));
  return {mx::astype(mantissa, mx::uint64), mx::astype(exponent, mx::int32)};
}

/// The integer nearest to the exact a · b ≤ 127.5, halves to even, for a, b ≥ 0.  The product rounded to f32
/// gives it, unless it is rounded to k + ½: then its 48 bits say on which side of that it lies.
mx::array nearest_product(const mx::array& a, const mx::array& b) {
  const mx::array product = mx::multiply(a, b), below = mx::floor(product);
  const mx::array tie = mx::equal(mx::subtract(product, below), number(0.5));
  const auto [a_mantissa, a_exponent] = taken_apart(a);
  const auto [b_mantissa, b_exponent] = taken_apart(b);
  const mx::array exact = mx::multiply(a_mantissa, b_mantissa);  // · 2^(ea + eb − 300)
  const mx::array twice = mx::astype(mx::add(mx::multiply(below, number(2)), number(1)), mx::uint64);
  const mx::array shift = mx::subtract(mx::array(299), mx::add(a_exponent, b_exponent));
  const mx::array half =
      mx::left_shift(twice, mx::astype(mx::clip(shift, mx::array(0), mx::array(55)), mx::uint64));
  const mx::array up = mx::astype(mx::greater(exact, half), mx::float32);
  const mx::array even =
      mx::subtract(below, mx::multiply(number(2), mx::floor(mx::multiply(below, number(0.5)))));
  const mx::array at_tie = mx::add(below, mx::where(mx::equal(exact, half), even, up));
  const mx::array over = mx::astype(mx::greater(mx::subtract(product, below), number(0.5)), mx::float32);
  return mx::where(tie, at_tie, mx::add(below, over));
}

/// Rows of x, f32 [m, k], as integers held in f32, and their scales [m, 1].
std::pair<mx::array, mx::array> integers(const mx::array& x) {
  const mx::array size = mx::abs(x), most = mx::max(size, 1, true);
  const mx::array finite = mx::all(mx::isfinite(x), 1, true);
  const mx::array counts = mx::logical_and(finite, mx::greater_equal(most, number(0x1p-100)));
  const mx::array inverse = mx::divide(number(127), mx::where(counts, most, number(127)));
  const mx::array rounded =
      nearest_product(mx::where(counts, size, number(0)), mx::broadcast_to(inverse, x.shape()));
  const mx::array scale = mx::where(counts, mx::divide(most, number(127)), number(0));
  return {mx::where(mx::less(x, number(0)), mx::negative(rounded), rounded),
          mx::where(finite, scale, number(std::numeric_limits<double>::quiet_NaN()))};
}

/// Columns whose products, each up to 127², f32 adds exactly in any order.
constexpr int kExactColumns = (1 << 24) / (127 * 127);

Arrays run_linear_int8(const Call& c) {
  const auto [x, x_scale] = integers(f32(c.matrix(0)));
  const auto [w, w_scale] = integers(c[1]);
  const int k = c.cols(0), rows = c.rows(0), n = static_cast<int>(c.in_type(1).shape[0]);
  mx::array sum = mx::zeros({rows, n}, mx::int32);
  for (int begin = 0; begin < k; begin += kExactColumns) {
    const int end = std::min(k, begin + kExactColumns);
    const mx::array part =
        mx::matmul(mx::slice(x, {0, begin}, {rows, end}), mx::transpose(mx::slice(w, {0, begin}, {n, end})));
    sum = mx::add(sum, mx::astype(part, mx::int32));
  }
  mx::array y = mx::multiply(f32(sum), mx::multiply(x_scale, mx::transpose(w_scale)));
  if (c.has(2)) y = mx::add(y, c[2]);
  return {shaped(c, 0, mx::astype(y, c.in_dtype(0)))};
}

}  // namespace

std::vector<Entry> product_entries() {
  return {{&op::linear, "matmul", run_linear, nullptr, rounded_weight},
          {&op::linear_bwd_input, "matmul", run_linear_bwd_input, nullptr, rounded_weight},
          {&op::linear_bwd_weight, "matmul", run_linear_bwd_weight, nullptr, widened_operands},
          {&op::linear_int8, "exact f32", run_linear_int8}};
}

}  // namespace lathe::mlx
