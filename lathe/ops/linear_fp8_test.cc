// What linear in fp8 rounds to, and its gradients.
#include "lathe/ops/linear_fp8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/core/float16.h"
#include "lathe/core/philox.h"
#include "lathe/ops/linear.h"

namespace lathe {
namespace {

std::vector<double> reference(const OpDef& op, const std::vector<Type>& types,
                              std::vector<std::vector<double>> in) {
  Program program;
  std::vector<Value> values;
  for (size_t i = 0; i < types.size(); ++i)
    values.push_back(program.input("in" + std::to_string(i), types[i]));
  if (&op == &op::linear_fp8) values.push_back({});
  const Value out = program.emit(op, values)[0];
  const size_t count = static_cast<size_t>(elements(out.type()));
  if (&op == &op::linear_fp8) in.resize(3);  // no bias
  Reference r{program.nodes()[0], types, {out.type()}, std::move(in), {std::vector<double>(count)}, {}};
  r.magnitude = r.out;
  op.reference(r);
  return r.out[0];
}

std::vector<double> drawn(uint32_t stream, size_t count) {
  std::vector<double> x;
  for (uint32_t i = 0; i < count; ++i)
    x.push_back(
        to_float(to_bf16(static_cast<float>(philox({i, stream, 0, 0}, 1, 2)[0]) / 4294967296.0f - 0.5f)));
  return x;
}

/// All numbers of e4m3 that are not negative, by their bits: from 0 to 448.
std::vector<double> e4m3() {
  std::vector<double> all;
  for (int bits = 0; bits < 0x7f; ++bits) {
    const int exponent = bits >> 3, mantissa = bits & 7;
    all.push_back(exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
  }
  return all;
}

/// x, whose largest is 448, against the rows of the unit matrix, so that nothing but x is rounded.
std::vector<double> rounded(std::vector<double> x) {
  constexpr int64_t k = 16;
  x.insert(x.begin(), 448);
  x.resize(k, 0);
  std::vector<double> unit(k * k, 0);
  for (size_t i = 0; i < k; ++i) unit[i * k + i] = 1;
  std::vector<double> y = reference(op::linear_fp8, {{DType::bf16, {1, k}}, {DType::f32, {k, k}}}, {x, unit});
  y.erase(y.begin());
  return y;
}

TEST(LinearFp8, RoundsToTheNearestNumberAndHalvesToEven) {
  const std::vector<double> numbers = e4m3();
  ASSERT_EQ(numbers.back(), 448);
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const double low = numbers[i], high = numbers[i + 1], gap = high - low;
    const std::vector<double> y =
        rounded({low, low + gap / 4, low + gap / 2, -(low + gap / 2), low + gap * 3 / 4});
    const double even = i % 2 == 0 ? low : high;  // the last bit of number i is that of i
    const double wanted[] = {low, low, even, -even, high};
    for (size_t j = 0; j < std::size(wanted); ++j)
      EXPECT_NEAR(y[j], wanted[j], 1e-6 * std::abs(wanted[j])) << i;
  }
}

/// e4m3 rounds by at most 2⁻⁴ of a number, or 2⁻¹⁰ of its row's factor where it is subnormal; bf16 rounds W.
TEST(LinearFp8, GradientOfTheInputIsNearThatOfLinear) {
  constexpr int64_t rows = 5, n = 48, k = 32;
  const std::vector<Type> types = {{DType::bf16, {rows, n}}, {DType::f32, {n, k}}};
  const std::vector<double> dy = drawn(1, rows * n), w = drawn(2, n * k);
  const auto exact = reference(op::linear_bwd_input, types, {dy, w});
  const auto fp8 = reference(op::linear_fp8_bwd_input, types, {dy, w});
  double difference = 0;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < k; ++j) {
      double bound = 0;
      constexpr double kSubnormal = 0x1p-10 * 0.5 / 448;  // of numbers up to a half
      for (size_t c = 0; c < n; ++c) {
        const double a = std::abs(dy[i * n + c]), b = std::abs(w[c * k + j]);
        const double da = 0x1p-4 * a + kSubnormal, db = 0x1p-4 * b + kSubnormal;
        bound += a * db + b * da + da * db;
      }
      EXPECT_LE(std::abs(fp8[i * k + j] - exact[i * k + j]), bound);
      difference += std::abs(fp8[i * k + j] - exact[i * k + j]);
    }
  EXPECT_GT(difference, 0);
}

TEST(LinearFp8, GradientIsFp8ForTheInputAndPlainForTheWeight) {
  Program program;
  const Value x = program.input("x", {DType::bf16, {4, 32}}), w = program.input("w", {DType::f32, {16, 32}}),
              b = program.input("b", {DType::f32, {16}}), dy = program.input("dy", {DType::bf16, {4, 16}});
  program.emit(op::linear_fp8, {x, w, b});
  const Node node = program.nodes()[0];
  const std::vector<Value> d = op::linear_fp8.gradient({program, node, {dy}});
  const auto producer = [&](const Value& v) {
    return program.nodes()[static_cast<size_t>(program.values()[static_cast<size_t>(v.id)].producer)].op;
  };
  EXPECT_EQ(producer(d[0]), &op::linear_fp8_bwd_input);
  EXPECT_EQ(producer(d[1]), &op::linear_bwd_weight);
  EXPECT_EQ(producer(d[2]), &op::linear_bwd_weight);
  EXPECT_EQ(d[0].type(), x.type());
}

}  // namespace
}  // namespace lathe
