// y = x·Wᵀ + b and its two backward products.  W is a weight in Hugging Face's layout [out, in]: an f32
// master weight, which with bf16 or f16 activations is read rounded to their dtype, as b may be
// (torch.autocast does both), or a weight in the dtype of the activations.  A weight that was rounded before
// gives the same bits.
#include "lathe/ops/linear.h"

#include <cmath>

#include "lathe/core/float16.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/product_cost.h"

namespace lathe::op {
namespace {

/// w as products of that dtype read an f32 weight.
double rounded(double w, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(static_cast<float>(w)));
  if (dtype == DType::f16) return to_float(to_f16(static_cast<float>(w)));
  return w;
}

constexpr double kUlp = 2;

/// How much of |b| its rounding to the dtype moves y by: half a unit in the last place, and y's own rounding
/// of it.  As a part of `magnitude`, of which the bound allows ulp · 2⁻²⁴ · √k.
double bias_rounding(DType dtype, int64_t k) {
  if (dtype == DType::f32) return 0;
  const double half_unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  return half_unit * (1 + half_unit) / (kUlp * 0x1p-24 * std::sqrt(static_cast<double>(k)));
}

void ref_linear(Reference& r) {
  const int64_t rows = r.rows(0), k = r.cols(0), n = r.dim(1, 0);
  const DType dtype = r.in_types[0].dtype;
  const double rounding = bias_rounding(dtype, k);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double y = r.in[2].empty() ? 0 : r.in[2][static_cast<size_t>(j)];
      double magnitude = std::abs(y) * (1 + rounding);
      for (int64_t c = 0; c < k; ++c) {
        const double term =
            r.in[0][static_cast<size_t>(i * k + c)] * rounded(r.in[1][static_cast<size_t>(j * k + c)], dtype);
        y += term;
        magnitude += std::abs(term);
      }
      r.out[0][static_cast<size_t>(i * n + j)] = y;
      r.magnitude[0][static_cast<size_t>(i * n + j)] = magnitude;
    }
}

void ref_linear_bwd_input(Reference& r) {
  const int64_t rows = r.rows(0), n = r.cols(0), k = r.dim(1, 1);
  const DType dtype = r.in_types[0].dtype;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < k; ++c) {
        const double term =
            r.in[0][static_cast<size_t>(i * n + j)] * rounded(r.in[1][static_cast<size_t>(j * k + c)], dtype);
        r.out[0][static_cast<size_t>(i * k + c)] += term;
        r.magnitude[0][static_cast<size_t>(i * k + c)] += std::abs(term);
      }
}

void ref_linear_bwd_weight(Reference& r) {
  const int64_t rows = r.rows(0), n = r.cols(0), k = r.cols(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double dy = r.in[0][static_cast<size_t>(i * n + j)];
      r.out[1][static_cast<size_t>(j)] += dy;
      r.magnitude[1][static_cast<size_t>(j)] += std::abs(dy);
      for (int64_t c = 0; c < k; ++c) {
        const double term = dy * r.in[1][static_cast<size_t>(i * k + c)];
        r.out[0][static_cast<size_t>(j * k + c)] += term;
        r.magnitude[0][static_cast<size_t>(j * k + c)] += std::abs(term);
      }
    }
}

std::vector<Value> linear_gradient(const Grad& g) {
  const auto weight = g.program.emit(linear_bwd_weight, {g.dout[0], g.in(0)});
  return {g.program.emit(linear_bwd_input, {g.dout[0], g.in(1)})[0], cast(weight[0], g.in(1).type().dtype),
          g.in(2) ? weight[1] : Value{}};
}

/// {rows, k, n} of the shapes that matter: edges of tiles and panels, a classifier, a token count that is no
/// multiple.
const std::vector<Shape> kSizes = {{1, 1, 1},    {1, 32, 2},  {7, 31, 33},   {16, 64, 64},
                                   {33, 65, 17}, {40, 96, 6}, {130, 128, 96}};

}  // namespace

Cost product_cost(const Node& node, const Program& program) {
  Cost cost = elementwise_cost(node, program, 0);
  const Type& a = program.type(node.in[0]);
  const Type& b = program.type(node.in[1]);
  // rows × n × k: the weight holds n × k, the other operand's rows are common to both products
  const bool weight_gradient = node.op == &linear_bwd_weight;
  const double rows = static_cast<double>(elements(a)) / static_cast<double>(a.shape.back());
  const double nk = weight_gradient
                        ? static_cast<double>(a.shape.back()) * static_cast<double>(b.shape.back())
                        : static_cast<double>(elements(b));
  cost.flops = 2 * rows * nk;
  return cost;
}

const OpDef linear{
    .name = "linear",
    .signature = "x[..,k] w[n,k]:f32|x b[n]:f32? -> y[..,n]:x",
    .gradient = linear_gradient,
    .reference = ref_linear,
    .cases =
        [] {
          std::vector<Case> cases;
          for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[1]}, {s[2], s[1]}, {s[2]}}});
          cases.push_back({"no bias", {{5, 40}, {24, 40}, {-1}}});
          cases.push_back({"large vocabulary", {{9, 16}, {30522, 16}, {30522}}});
          cases.push_back({"rank 3", {{2, 3, 40}, {24, 40}, {24}}});
          cases.push_back({"beyond f16", {{9, 40}, {24, 40}, {24}}, {}, {}, 200});
          return cases;
        },
    .bound = {.ulp = kUlp, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = product_cost,
    .source = "torch.nn.functional.linear",
};

const OpDef linear_bwd_input{
    .name = "linear_bwd_input",
    .signature = "dy[..,n] w[n,k]:f32|dy -> dx[..,k]:dy",
    .gradient = not_differentiable,
    .reference = ref_linear_bwd_input,
    .cases =
        [] {
          std::vector<Case> cases;
          for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[2]}, {s[2], s[1]}}});
          return cases;
        },
    .bound = {.ulp = kUlp, .terms = [](const Reference& r) { return static_cast<double>(r.cols(0)); }},
    .cost = product_cost,
};

const OpDef linear_bwd_weight{
    .name = "linear_bwd_weight",
    .signature = "dy[..,n] x[..,k]:dy -> dw[n,k]:f32 db[n]:f32",
    .gradient = not_differentiable,
    .reference = ref_linear_bwd_weight,
    .cases =
        [] {
          std::vector<Case> cases;
          for (const Shape& s : kSizes) cases.push_back({to_string(s), {{s[0], s[2]}, {s[0], s[1]}}});
          // Several tiles, and more slices of the sums over rows than are on their way at once.
          cases.push_back({"many rows", {{700, 320}, {700, 192}}});
          return cases;
        },
    .bound = {.ulp = kUlp, .terms = [](const Reference& r) { return static_cast<double>(r.rows(0)); }},
    .cost = product_cost,
};

}  // namespace lathe::op
