// The gradient norm and AdamW over flat arenas.
#include "lathe/ops/optimizers/optimizer.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

double hyper_of(const Reference& r, int input, Hyper h) {
  return r.in[static_cast<size_t>(input)][static_cast<size_t>(h)];
}

void ref_grad_norm(Reference& r) {
  double sum = 0;
  for (const size_t input : {0, 2})
    for (double g : r.in[input]) sum += g * g;
  r.out[0][0] = std::sqrt(sum) * hyper_of(r, 1, Hyper::kInverseScale);
}

constexpr size_t kRounded = 7;

/// The gradient of parameter i.
double& gradient_at(Reference& r, size_t i) {
  const size_t first = static_cast<size_t>(r.node.attrs.i("first")), count = r.in[kRounded].size();
  if (i < first) return r.in[1][i];
  return i < first + count ? r.in[kRounded][i - first] : r.in[1][i - count];
}

std::vector<Type> infer_adamw(std::span<const Type> in, const Attrs& attrs) {
  const std::vector<InputRule> rules = input_rules(adamw);
  const Type one{DType::f32, {1}}, hyper{DType::f32, {kHyperCount}};
  const Type wanted[] = {in[0], {}, in[0], in[0], one, one, hyper, {}};
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].optional && in[i].shape == Shape{-1}) continue;
    const bool flat = in[i].dtype == rules[i].dtype && in[i].shape.size() == 1;
    if (!flat || (i != 1 && i != kRounded && in[i] != wanted[i]))
      fail(ErrorCode::kShape, "adamw: {} is {}, but the signature needs {}", rules[i].name, to_string(in[i]),
           adamw.signature);
  }
  const int64_t exact = elements(in[1]), first = attrs.i("first");
  const int64_t rounded = in[kRounded].shape == Shape{-1} ? 0 : elements(in[kRounded]);
  if (exact + rounded != elements(in[0]) || first < 0 || first > exact)
    fail(ErrorCode::kShape,
         "adamw: {} gradients and {} rounded ones from {} on, expected those of {} parameters", exact,
         rounded, first, elements(in[0]));
  return {in[0], in[2], in[3]};
}

void ref_adamw(Reference& r) {
  const double beta1 = r.node.attrs.f("beta1"), beta2 = r.node.attrs.f("beta2"), eps = r.node.attrs.f("eps");
  const double weight_decay = r.node.attrs.f("weight_decay");
  const size_t decayed = static_cast<size_t>(r.node.attrs.i("decayed"));
  const auto hyper = [&](Hyper h) { return hyper_of(r, 6, h); };
  const double norm = r.in[4][0], loss = r.in[5][0], factor = gradient_factor(r.in[6].data(), norm);
  const bool apply = std::isfinite(norm) && std::isfinite(loss);
  for (size_t i = 0; i < r.in[0].size(); ++i) {
    const double gradient = gradient_at(r, i);
    double p = r.in[0][i], m = r.in[2][i], v = r.in[3][i], square = 0;
    if (apply) {
      const double g = gradient * factor;
      if (i < decayed) p *= 1 - hyper(Hyper::kLearningRate) * weight_decay;
      m = beta1 * m + (1 - beta1) * g;
      square = (1 - beta2) * g * g;
      v = beta2 * v + square;
      p -= hyper(Hyper::kLearningRate) / hyper(Hyper::kBiasCorrection1) * m /
           (std::sqrt(v) / std::sqrt(hyper(Hyper::kBiasCorrection2)) + eps);
    }
    r.out[0][i] = p;
    r.out[1][i] = m;
    r.out[2][i] = v;
    r.magnitude[0][i] = std::abs(r.in[0][i]) + std::abs(p - r.in[0][i]);
    r.magnitude[1][i] = std::abs(r.in[2][i]) + std::abs(gradient);
    // Of the six roundings after the square (the scaled gradient's counts twice, then that of 1 − β₂, of two
    // products and of the sum) the bound holds four.
    r.magnitude[2][i] = v + 0.5 * square;
  }
}

void adjust_adamw(Reference& r) {
  for (double& v : r.in[3]) v = v * v;
  r.in[4][0] = std::abs(r.in[4][0]) * 5;
  r.in[6] = {1e-2, 0.19, 0.002, 1.0, 1.0};
}
void adjust_unclipped(Reference& r) {
  adjust_adamw(r);
  r.in[6][static_cast<size_t>(Hyper::kMaxGradNorm)] = 0;
}
void adjust_scaled(Reference& r) {
  adjust_adamw(r);
  for (double& g : r.in[1]) g *= 65536;
  r.in[6][static_cast<size_t>(Hyper::kInverseScale)] = 0x1p-16;
}
void adjust_not_finite(Reference& r) {
  adjust_adamw(r);
  r.in[4][0] = INFINITY;
}
/// Elements without a gradient so far, in runs and single: rows of an embedding whose tokens never came.
void adjust_idle(Reference& r) {
  adjust_adamw(r);
  for (size_t i = 0; i < r.in[0].size(); ++i)
    if (i / 300 % 2 == 0 || i % 7 == 0) gradient_at(r, i) = r.in[2][i] = r.in[3][i] = 0;
}
std::vector<Case> adamw_cases() {
  const auto shapes = [](int64_t n, int64_t rounded = -1) {
    const int64_t exact = n - std::max<int64_t>(rounded, 0);
    return std::vector<Shape>{{n}, {exact}, {n}, {n}, {1}, {1}, {kHyperCount}, {rounded}};
  };
  const Attrs decay{{"weight_decay", 0.1}, {"decayed", int64_t{20}}};
  const auto decay_from = [&](int64_t first) {
    Attrs attrs = decay;
    attrs["first"] = first;
    return attrs;
  };
  return {{"one", shapes(1), {}, {}, 1, adjust_adamw},
          {"part decayed", shapes(37), decay, {}, 1, adjust_adamw},
          {"long", shapes(5003), decay, {}, 1, adjust_adamw},
          {"no clipping", shapes(33), {}, {}, 1, adjust_unclipped},
          {"scaled", shapes(45), decay, {}, 1, adjust_scaled},
          {"idle", shapes(5003), {}, {}, 1, adjust_idle},
          {"idle, decayed",
           shapes(5003),
           {{"weight_decay", 0.1}, {"decayed", int64_t{2500}}},
           {},
           1,
           adjust_idle},
          {"not finite", shapes(33), decay, {}, 1, adjust_not_finite},
          {"rounded, vectors", shapes(7001, 4096), decay_from(16), {}, 1, adjust_adamw},
          {"rounded, odd", shapes(5003, 2049), decay_from(1001), {}, 1, adjust_scaled},
          {"rounded first", shapes(37, 30), decay_from(0), {}, 1, adjust_unclipped},
          {"rounded last", shapes(37, 30), decay_from(7), {}, 1, adjust_adamw},
          {"rounded alone", shapes(5004, 5004), decay_from(0), {}, 1, adjust_adamw},
          {"rounded, idle", shapes(5003, 2000), {{"first", int64_t{2400}}}, {}, 1, adjust_idle},
          {"rounded, not finite", shapes(33, 8), decay_from(4), {}, 1, adjust_not_finite}};
}

Cost adamw_cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 15); }
Cost norm_cost(const Node& node, const Program& program) {
  Cost cost;
  for (const size_t input : {0, 2}) {
    if (node.in[input] < 0) continue;
    const Type& type = program.type(node.in[input]);
    cost.bytes += static_cast<double>(bytes_of(type));
    cost.flops += 2 * static_cast<double>(elements(type));
  }
  return cost;
}

}  // namespace

/// The global L2 norm of the gradients, rounded ones among them, times hyper's kInverseScale.
const OpDef grad_norm{
    .name = "grad_norm",
    .signature = "g[n]:f32 hyper[5]:f32 rounded[r]:bf16? -> norm[1]:f32",
    .dtypes = {DType::f32},
    .gradient = not_differentiable,
    .reference = ref_grad_norm,
    .cases =
        [] {
          return std::vector<Case>{{"one", {{1}, {kHyperCount}, {-1}}},
                                   {"odd", {{1037}, {kHyperCount}, {-1}}},
                                   {"long", {{70001}, {kHyperCount}, {-1}}},
                                   {"scaled", {{333}, {kHyperCount}, {-1}}, {}, {}, 65536},
                                   {"rounded", {{1037}, {kHyperCount}, {4096}}},
                                   {"rounded, odd", {{5}, {kHyperCount}, {4099}}},
                                   {"rounded, long", {{70001}, {kHyperCount}, {100000}}}};
        },
    .bound = {.ulp = 4},
    .cost = norm_cost,
    .source = "torch.nn.utils.clip_grad_norm_",
};

/// One AdamW update with the gradient times hyper's kInverseScale, clipped to the global norm.  The first
/// `decayed` elements have weight decay. hyper: see Hyper.  A norm or loss that is not finite leaves
/// everything as it is.  rounded: the gradients of parameters `first` and following; g holds those of all
/// others, one after the other, n = k + r.
const OpDef adamw{
    .name = "adamw",
    .signature =
        "p[n]:f32 g[k]:f32 m[n]:f32 v[n]:f32 norm[1]:f32 loss[1]:f32 hyper[5]:f32 rounded[r]:bf16? -> "
        "p2[n]:f32 m2[n]:f32 v2[n]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"beta1", 0.9},
              {"beta2", 0.999},
              {"eps", 1e-8},
              {"weight_decay", 0.0},
              {"decayed", int64_t{0}},
              {"first", int64_t{0}}},
    .infer = infer_adamw,
    .gradient = not_differentiable,
    .reference = ref_adamw,
    .cases = adamw_cases,
    .bound = {.ulp = 4},
    .cost = adamw_cost,
    .in_place = {{0, 0}, {1, 2}, {2, 3}},
    .source =
        "Loshchilov and Hutter 2019; torch.optim.AdamW (denominator √v/√(1−β₂ᵗ) + ε); clip coefficient "
        "max_norm / (norm + 1e-6) of torch.nn.utils.clip_grad_norm_",
};

}  // namespace lathe::op
