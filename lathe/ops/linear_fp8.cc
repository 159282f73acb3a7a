// y = x·Wᵀ + b and dx = dy·W in fp8.  W, unless it is bf16, and b are first rounded to it, as in linear; then
// every row of x, of dy and of W, for dx every column of W, becomes numbers of e4m3 times its own scale:
//   scale = a / 448, value = nearest e4m3 to v · (448 / a), halves to even, with a = max |v| of the row,
// both quotients and the product rounded to f32.  448 is the largest e4m3.  A row with a < 2⁻¹⁰⁰ is zero, one
// with a value that is not finite gives NaN.  Gradients are those of linear, as if nothing were rounded; that
// of the weight is a product of bf16.  dy, too, is e4m3: a scale by row leaves e5m2's wider range without
// use, and its mantissa has a bit less.
#include "lathe/ops/linear_fp8.h"

#include <cmath>
#include <limits>

#include "lathe/core/float16.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/product_cost.h"

namespace lathe::op {
namespace {

constexpr float kLargest = 448;

/// e4m3: 3 bits of mantissa; exponents from −6 on, below them subnormals.
double to_e4m3(float v) {
  if (v == 0) return 0;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(v), -6) - 3);
  return std::nearbyint(double{v} / unit) * unit;
}

/// A matrix whose rows are sums' operands, in e4m3.
struct Fp8 {
  std::vector<double> value;
  std::vector<double> scale;  ///< by row
};

/// at(i, c): element c of row i.
template <typename At>
Fp8 quantized(int64_t rows, int64_t k, At at) {
  Fp8 q{std::vector<double>(static_cast<size_t>(rows * k), 0), {}};
  for (int64_t i = 0; i < rows; ++i) {
    float largest = 0;
    bool finite = true;
    for (int64_t c = 0; c < k; ++c) {
      finite &= std::isfinite(at(i, c));
      largest = std::max(largest, std::abs(at(i, c)));
    }
    const bool zero = finite && largest < 0x1p-100f;
    q.scale.push_back(!finite ? std::numeric_limits<double>::quiet_NaN()
                      : zero  ? 0
                              : double{largest / kLargest});
    if (!finite || zero) continue;
    const float inverse = kLargest / largest;
    for (int64_t c = 0; c < k; ++c) q.value[static_cast<size_t>(i * k + c)] = to_e4m3(at(i, c) * inverse);
  }
  return q;
}

Fp8 activations(const std::vector<double>& x, int64_t rows, int64_t k) {
  return quantized(
      rows, k, [&](int64_t i, int64_t c) { return static_cast<float>(x[static_cast<size_t>(i * k + c)]); });
}

float to_bf16_and_back(double v) { return to_float(to_bf16(static_cast<float>(v))); }

constexpr double kUlp = 2;

/// What Hopper's tensor cores lose of Σ|terms|, as a part of `magnitude`, of which the bound allows
/// ulp · 2⁻²⁴ · √k.  An instruction adds 32 products and the sum so far, cut off 13 bits below the first of
/// the largest; after at most four of them the sum goes to f32.  Of 33 · 4 losses of up to 2⁻¹³ of what
/// Σ|terms| bounds, √(33 · 4) remain, as √k of k roundings.  Source: DeepSeek-AI 2024 (arXiv
/// 2412.19437), 3.3.2.
double tensor_core_sums(int64_t k) {
  return 0x1p-13 * std::sqrt(33.0 * 4) / (kUlp * 0x1p-24 * std::sqrt(static_cast<double>(k)));
}

/// out[i, j] = Σ a[i, c] · b[j, c] + bias[j]
void multiply(Reference& r, const Fp8& a, const Fp8& b, int64_t k, const std::vector<double>& bias) {
  const size_t rows = a.scale.size(), cols = b.scale.size(), length = static_cast<size_t>(k);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) {
      double sum = 0, magnitude = 0;
      for (size_t c = 0; c < length; ++c) {
        const double term = a.value[i * length + c] * b.value[j * length + c];
        sum += term;
        magnitude += std::abs(term);
      }
      const double scale = a.scale[i] * b.scale[j];
      const double shift = bias.empty() ? 0 : to_bf16_and_back(bias[j]);
      r.out[0][i * cols + j] = sum * scale + shift;
      r.magnitude[0][i * cols + j] = magnitude * scale * (1 + tensor_core_sums(k)) + std::abs(shift);
    }
}

void ref_linear_fp8(Reference& r) {
  const int64_t k = r.cols(0), n = r.dim(1, 0);
  const auto w = [&](int64_t j, int64_t c) {
    return to_bf16_and_back(r.in[1][static_cast<size_t>(j * k + c)]);
  };
  multiply(r, activations(r.in[0], r.rows(0), k), quantized(n, k, w), k, r.in[2]);
}

void ref_linear_fp8_bwd_input(Reference& r) {
  const int64_t n = r.cols(0), k = r.dim(1, 1);
  const auto w = [&](int64_t c, int64_t j) {
    return to_bf16_and_back(r.in[1][static_cast<size_t>(j * k + c)]);
  };
  multiply(r, activations(r.in[0], r.rows(0), n), quantized(k, n, w), n, {});
}

std::vector<Value> gradient(const Grad& g) {
  const auto weight = g.program.emit(linear_bwd_weight, {g.dout[0], g.in(0)});
  return {g.program.emit(linear_fp8_bwd_input, {g.dout[0], g.in(1)})[0],
          cast(weight[0], g.in(1).type().dtype), g.in(2) ? weight[1] : Value{}};
}

/// Halves of e4m3 in a row whose largest is 448, so that nothing is scaled: k + ½ units of every exponent
/// down to half of the least subnormal; a row of zeros, one that is too small; the same in a weight.
void ties(Reference& r) {
  const int64_t k = r.cols(0);
  for (int64_t c = 0; c < k; ++c) {
    const double half = std::ldexp(static_cast<double>(8 + c % 8) + 0.5, 4 - static_cast<int>(c / 8) % 16);
    r.in[0][static_cast<size_t>(c)] = c == 0 ? 448 : c % 2 == 0 ? half : -half;
    r.in[0][static_cast<size_t>(k + c)] = 0;
    r.in[0][static_cast<size_t>(2 * k + c)] = 0x1p-110;
    r.in[1][static_cast<size_t>(c)] = c == 1 ? -448 : half;
    r.in[1][static_cast<size_t>(k + c)] = 0;
  }
}

void not_finite(Reference& r) {
  const size_t k = static_cast<size_t>(r.cols(0));
  r.in[0][3] = std::numeric_limits<double>::infinity();
  r.in[0][2 * k + 5] = std::numeric_limits<double>::quiet_NaN();
  r.in[1][static_cast<size_t>(r.dim(1, 1))] = -std::numeric_limits<double>::infinity();
}

/// {rows, k, n}: a single row, counts that are no multiples of a tile, operands beyond what a thread keeps.
const std::vector<Shape> kSizes = {{1, 16, 16},  {1, 32, 48},  {7, 48, 32},
                                   {33, 64, 80}, {40, 96, 16}, {130, 128, 96}};

}  // namespace

const OpDef linear_fp8{
    .name = "linear_fp8",
    .signature = "x[..,k] w[n,k]:f32|x b[n]:f32? -> y[..,n]:x",
    .dtypes = {DType::bf16},
    .gradient = gradient,
    .reference = ref_linear_fp8,
    .cases =
        [] {
          std::vector<Case> cases;
          for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[1]}, {s[2], s[1]}, {s[2]}}});
          cases.push_back({"long rows", {{3, 4800}, {16, 4800}, {16}}});
          cases.push_back({"no bias", {{5, 48}, {32, 48}, {-1}}});
          cases.push_back({"rank 3", {{2, 3, 48}, {32, 48}, {32}}});
          cases.push_back({"ties and zeros", {{4, 128}, {16, 128}, {16}}, {}, {}, 1, ties});
          cases.push_back({"not finite", {{4, 64}, {16, 64}, {16}}, {}, {}, 1, not_finite});
          cases.push_back({"large", {{4, 64}, {16, 64}, {16}}, {}, {}, 1e6});
          return cases;
        },
    .bound = {.ulp = kUlp, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = product_cost,
    .optional = true,
    .source = "torchao's float8 training, recipe rowwise; accelerate's mixed_precision: fp8",
};

const OpDef linear_fp8_bwd_input{
    .name = "linear_fp8_bwd_input",
    .signature = "dy[..,n] w[n,k]:f32|dy -> dx[..,k]:dy",
    .dtypes = {DType::bf16},
    .gradient = not_differentiable,
    .reference = ref_linear_fp8_bwd_input,
    .cases =
        [] {
          std::vector<Case> cases;
          for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[2]}, {s[2], s[1]}}});
          cases.push_back({"many columns of sums", {{3, 2064}, {2064, 32}}});
          cases.push_back({"ties and zeros", {{4, 128}, {128, 128}}, {}, {}, 1, ties});
          cases.push_back({"not finite", {{4, 64}, {64, 16}}, {}, {}, 1, not_finite});
          cases.push_back({"small", {{4, 64}, {64, 16}}, {}, {}, 1e-6});
          return cases;
        },
    .bound = {.ulp = kUlp, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = product_cost,
    .optional = true,
};

}  // namespace lathe::op
