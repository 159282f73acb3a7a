// add, mul, scale, cast, the activations and the gated ones with their derivatives.
#include "lathe/ops/elementwise.h"

#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

template <typename F>
auto map(F f) {
  return [f](Reference& r) {
    for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = f(r.in[0][i]);
  };
}

template <typename F>
auto zip(F f) {
  return [f](Reference& r) {
    for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = f(r.in[0][i], r.in[1][i]);
  };
}

std::vector<Case> unary_cases() {
  return {{"one", {{1}}},
          {"odd", {{3, 17}}},
          {"row", {{2, 768}}},
          {"long", {{3, 1367}}},
          {"large", {{5, 33}}, {}, {}, 30},
          {"to the end of f16", {{5, 33}}, {}, {}, 6e4},
          {"tiny", {{64}}, {}, {}, 1e-4}};
}
std::vector<Case> binary_cases() {
  std::vector<Case> cases = unary_cases();
  for (Case& c : cases) c.in.push_back(c.in[0]);
  return cases;
}
std::vector<Case> scale_cases() {
  std::vector<Case> cases = unary_cases();
  for (Case& c : cases) c.attrs = {{"factor", 0.3}};
  return cases;
}

template <int kFlops>
Cost cost(const Node& node, const Program& program) {
  return elementwise_cost(node, program, kFlops);
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

std::vector<Type> infer_cast(std::span<const Type> in, const Attrs& attrs) {
  Type type{DType::f32, in[0].shape};
  if (!dtype_of(attrs.s("to"), &type.dtype)) fail(ErrorCode::kShape, "cast: {} is no dtype", attrs.s("to"));
  return {type};
}
std::vector<Case> cast_cases() {
  std::vector<Case> cases = unary_cases(), all;
  cases.push_back({"beyond f16", {{3, 17}}, {}, {}, 2e5});
  for (const char* to : {"f32", "bf16", "f16"})
    for (Case c : cases) {
      c.attrs = {{"to", std::string(to)}};
      c.name += std::string("-to-") + to;
      all.push_back(c);
    }
  return all;
}

constexpr double kGeluBwdUlp = 4;

/// Where the result has two bytes, whose rounding is 2⁻¹² at best, the tail of Φ and x · φ may each be off by
/// 2⁻¹⁶ of themselves.  They cancel at x = −0.75, so this shows there.  As a part of `magnitude`, of which
/// the bound allows ulp · 2⁻²⁴.
double gelu_terms_off(const Reference& r) {
  return r.out_types[0].dtype == DType::f32 ? 0 : 0x1p-16 / (kGeluBwdUlp * 0x1p-24);
}

constexpr double kGatedUlp = 4, kGatedBwdUlp = kGeluBwdUlp + 1;

/// f(i, u, v, place of u in x, place of v) for every element i of y: input u and gate v.
template <typename F>
void for_gated(const Reference& r, int input, F f) {
  const int64_t n = r.cols(input) / 2;
  const auto& x = r.in[static_cast<size_t>(input)];
  for (int64_t i = 0; i < r.rows(input) * n; ++i) {
    const size_t at = static_cast<size_t>(i / n * 2 * n + i % n), gate = at + static_cast<size_t>(n);
    f(static_cast<size_t>(i), x[at], x[gate], at, gate);
  }
}

/// An activation at u and its derivative, each with what its product with a gate is off by in f32, in units
/// of 2⁻²⁴.
struct Activated {
  double value, value_off, slope, slope_off;
};

Activated gelu_at(const Reference& r, double u) {
  const double bell = std::abs(u) * normal_pdf(u), tail = normal_cdf(-std::abs(u)), off = gelu_terms_off(r);
  return {u * normal_cdf(u), std::abs(u) * (1 + off * tail) * kGatedUlp, normal_cdf(u) + u * normal_pdf(u),
          (1 + bell * (1 + u * u) + off * (tail + bell)) * kGatedBwdUlp};
}

/// u · σ(w), which an implementation may know only to w_off units of |w|, and w' = dw / du to 5 units.
/// e^−|w| is off by 4 + w_off |w| units of itself, σ(−|w|) = e^−|w| / (1 + e^−|w|) by 6 + w_off |w|, and
/// σ(|w|) by no more, of which only the part σ(−|w|) comes from w.  An exponential below 2⁻¹²⁶ may be 0.
Activated by_sigmoid(double u, double w, double slope_of_w, double w_off) {
  const double tail = 1 / (1 + std::exp(std::abs(w))), s = w < 0 ? tail : 1 - tail,
               product = tail * (1 - tail);
  const double moved = w_off * std::abs(w), flushed = 0x1p-126 / 0x1p-24, bent = std::abs(u * slope_of_w);
  const double s_off = s * 6 + moved * product + flushed;
  return {u * s, std::abs(u) * (s_off + 2 * s), s + u * slope_of_w * product,
          s_off + 3 * s + bent * (product * (6 + 6 + 5 + 3 + 3 + moved) + flushed)};
}
Activated silu_at(const Reference&, double u) { return by_sigmoid(u, u, 1, 0); }
/// ½ u (1 + tanh z) = u · σ(2z).  w = 2z takes six roundings, with those of its constants.
Activated gelu_tanh_at(const Reference&, double u) {
  const double c = 2 * std::sqrt(2 / M_PI), cubic = 0.044715;
  return by_sigmoid(u, c * (u + cubic * u * u * u), c * (1 + 3 * cubic * u * u), 6);
}

constexpr std::pair<const char*, Activated (*)(const Reference&, double)> kActivations[] = {
    {"gelu", gelu_at}, {"silu", silu_at}, {"gelu_tanh", gelu_tanh_at}};

const auto* find_activation(const Attrs& attrs) {
  for (const auto& each : kActivations)
    if (attrs.s("activation") == each.first) return &each;
  fail(ErrorCode::kShape, "gated: found activation {}, expected gelu, silu or gelu_tanh",
       attrs.s("activation"));
}
void check_activation(std::span<const Type>, const Attrs& attrs) { find_activation(attrs); }

void ref_gated(Reference& r) {
  const auto activation = find_activation(r.node.attrs)->second;
  for_gated(r, 0, [&](size_t i, double u, double v, size_t, size_t) {
    const Activated a = activation(r, u);
    r.out[0][i] = a.value * v;
    r.magnitude[0][i] = std::abs(v) * a.value_off / kGatedUlp;
  });
}

void ref_gated_bwd(Reference& r) {
  const auto activation = find_activation(r.node.attrs)->second;
  for_gated(r, 1, [&](size_t i, double u, double v, size_t at, size_t gate) {
    const Activated a = activation(r, u);
    const double dy = r.in[0][i];
    r.out[0][at] = dy * v * a.slope;
    r.magnitude[0][at] = std::abs(dy * v) * a.slope_off / kGatedBwdUlp;
    r.out[0][gate] = dy * a.value;
    r.magnitude[0][gate] = std::abs(dy) * a.value_off / kGatedUlp;
  });
}

std::vector<Case> gated_cases(bool backward) {
  const std::vector<Case> sizes = {{"one", {{1, 2}}},
                                   {"odd", {{3, 34}}},
                                   {"row", {{2, 2304}}},
                                   {"rank 3", {{2, 3, 40}}},
                                   {"large", {{5, 66}}, {}, {}, 30},
                                   {"many rows", {{301, 48}}},
                                   {"tiny", {{2, 64}}, {}, {}, 1e-4}};
  std::vector<Case> cases;
  for (const auto& [name, at] : kActivations)
    for (Case c : sizes) {
      const bool is_gelu = std::string(name) == "gelu";
      if (!is_gelu) c.name = fmt::format("{}, {}", name, c.name);
      c.attrs = {{"activation", std::string(name)}};
      c.optional = !is_gelu;
      if (backward) {
        Shape dy = c.in[0];
        dy.back() /= 2;
        c.in.insert(c.in.begin(), dy);
      }
      cases.push_back(c);
    }
  return cases;
}

}  // namespace

const OpDef add{
    .name = "add",
    .signature = "a[..] b[..]:a -> y[..]:a",
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{g.dout[0], g.dout[0]};
        },
    .reference = zip([](double a, double b) { return a + b; }),
    .cases = binary_cases,
    .bound = {.ulp = 1},
    .cost = cost<1>,
    .commutative = true,
};

const OpDef mul{
    .name = "mul",
    .signature = "a[..] b[..]:a -> y[..]:a",
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{g.program.emit(mul, {g.dout[0], g.in(1)})[0],
                                    g.program.emit(mul, {g.dout[0], g.in(0)})[0]};
        },
    .reference = zip([](double a, double b) { return a * b; }),
    .cases = binary_cases,
    .bound = {.ulp = 1},
    .cost = cost<1>,
    .commutative = true,
};

const OpDef scale{
    .name = "scale",
    .signature = "x[..] -> y[..]:x",
    .attrs = {{"factor", 1.0}},
    .gradient =
        [](const Grad& g) {
          return g.program.emit(scale, {g.dout[0]}, {{"factor", g.node.attrs.f("factor")}});
        },
    .reference =
        [](Reference& r) {
          const double factor = static_cast<float>(r.node.attrs.f("factor"));
          for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = factor * r.in[0][i];
        },
    .cases = scale_cases,
    .bound = {.ulp = 1},
    .cost = cost<1>,
};

const OpDef cast{
    .name = "cast",
    .signature = "x[..] -> y[..]",
    .attrs = {{"to", std::string("f32")}},
    .infer = infer_cast,
    .gradient =
        [](const Grad& g) {
          return g.program.emit(cast, {g.dout[0]}, {{"to", std::string(name_of(g.in(0).type().dtype))}});
        },
    .reference = map([](double x) { return x; }),
    .cases = cast_cases,
    .bound = {.ulp = 1},
    .cost = cost<0>,
};

const OpDef relu{
    .name = "relu",
    .signature = "x[..] -> y[..]:x",
    .gradient =
        [](const Grad& g) {
          return g.program.emit(relu_bwd, {g.dout[0], g.out(0)});
        },
    .reference = map([](double x) { return x > 0 ? x : 0.0; }),
    .cases = unary_cases,
    .bound = {.ulp = 0},
    .cost = cost<1>,
};

const OpDef relu_bwd{
    .name = "relu_bwd",
    .signature = "dy[..] y[..]:dy -> dx[..]:dy",
    .gradient = not_differentiable,
    .reference = zip([](double dy, double y) { return y > 0 ? dy : 0.0; }),
    .cases = binary_cases,
    .bound = {.ulp = 0},
    .cost = cost<1>,
};

const OpDef tanh{
    .name = "tanh",
    .signature = "x[..] -> y[..]:x",
    .gradient =
        [](const Grad& g) {
          return g.program.emit(tanh_bwd, {g.dout[0], g.out(0)});
        },
    .reference = map([](double x) { return std::tanh(x); }),
    .cases = unary_cases,
    .bound = {.ulp = 4},
    .cost = cost<20>,
};

const OpDef tanh_bwd{
    .name = "tanh_bwd",
    .signature = "dy[..] y[..]:dy -> dx[..]:dy",
    .gradient = not_differentiable,
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.out[0].size(); ++i) {
            const double dy = r.in[0][i], y = r.in[1][i];
            r.out[0][i] = dy * (1 - y * y);
            r.magnitude[0][i] = std::abs(dy) * (1 + y * y);
          }
        },
    .cases = binary_cases,
    .bound = {.ulp = 2},
    .cost = cost<3>,
};

const OpDef gelu{
    .name = "gelu",
    .signature = "x[..] -> y[..]:x",
    .gradient =
        [](const Grad& g) {
          return g.program.emit(gelu_bwd, {g.dout[0], g.in(0)});
        },
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.out[0].size(); ++i) {
            const double x = r.in[0][i];
            r.out[0][i] = x * normal_cdf(x);
            r.magnitude[0][i] = std::abs(x);  // 1 + erf cancels for x < 0
          }
        },
    .cases = unary_cases,
    .bound = {.ulp = 3},  // erfc to 2 ulp of 1, halved; then two roundings
    .cost = cost<30>,
    .source = "Hendrycks and Gimpel 2016, exact form: x · Φ(x)",
};

const OpDef gelu_bwd{
    .name = "gelu_bwd",
    .signature = "dy[..] x[..]:dy -> dx[..]:dy",
    .gradient = not_differentiable,
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.out[0].size(); ++i) {
            const double dy = r.in[0][i], x = r.in[1][i], bell = std::abs(x) * normal_pdf(x);
            r.out[0][i] = dy * (normal_cdf(x) + x * normal_pdf(x));
            r.magnitude[0][i] = std::abs(dy) * (1 + bell * (1 + x * x) +
                                                gelu_terms_off(r) * (normal_cdf(-std::abs(x)) + bell));
          }
        },
    .cases = binary_cases,
    .bound = {.ulp = kGeluBwdUlp},
    .cost = cost<40>,
    .source = "derivative of gelu: Φ(x) + x · φ(x)",
};

/// The activation of the first half of each row times its second half.  activation: gelu, the exact form;
/// silu, u · σ(u); gelu_tanh, ½ u (1 + tanh(√(2/π) (u + 0.044715 u³))).
const OpDef gated{
    .name = "gated",
    .signature = "x[..,2n] -> y[..,n]:x",
    .attrs = {{"activation", "gelu"}},
    .check = check_activation,
    .gradient =
        [](const Grad& g) {
          return g.program.emit(gated_bwd, {g.dout[0], g.in(0)}, g.node.attrs);
        },
    .reference = ref_gated,
    .cases = [] { return gated_cases(false); },
    .bound = {.ulp = kGatedUlp},
    .cost = cost<31>,
    .source =
        "Shazeer 2020 (arXiv 2002.05202); halves as in HF ModernBertMLP; silu: Elfwing et al. 2017 (arXiv "
        "1702.03118); gelu_tanh: Hendrycks and Gimpel 2016, as HF gelu_pytorch_tanh",
};

const OpDef gated_bwd{
    .name = "gated_bwd",
    .signature = "dy[..,n] x[..,2n]:dy -> dx[..,2n]:dy",
    .attrs = {{"activation", "gelu"}},
    .check = check_activation,
    .gradient = not_differentiable,
    .reference = ref_gated_bwd,
    .cases = [] { return gated_cases(true); },
    .bound = {.ulp = kGatedBwdUlp},
    .cost = cost<45>,
};

}  // namespace lathe::op
