// add, mul, scale, cast, and the activations and the gated one with their derivatives.
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

constexpr double kGegluBwdUlp = kGeluBwdUlp + 1;

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

void ref_geglu(Reference& r) {
  for_gated(r, 0, [&](size_t i, double u, double v, size_t, size_t) {
    r.out[0][i] = u * normal_cdf(u) * v;
    r.magnitude[0][i] = std::abs(u * v) * (1 + gelu_terms_off(r) * normal_cdf(-std::abs(u)));
  });
}

void ref_geglu_bwd(Reference& r) {
  for_gated(r, 1, [&](size_t i, double u, double v, size_t at, size_t gate) {
    const double dy = r.in[0][i], bell = std::abs(u) * normal_pdf(u), tail = normal_cdf(-std::abs(u));
    const double off = gelu_terms_off(r);
    r.out[0][at] = dy * v * (normal_cdf(u) + u * normal_pdf(u));
    r.magnitude[0][at] = std::abs(dy * v) * (1 + bell * (1 + u * u) + off * (tail + bell));
    r.out[0][gate] = dy * u * normal_cdf(u);
    r.magnitude[0][gate] = std::abs(dy * u) * (1 + off * tail);
  });
}

std::vector<Case> geglu_cases(bool backward) {
  std::vector<Case> cases = {{"one", {{1, 2}}},
                             {"odd", {{3, 34}}},
                             {"row", {{2, 2304}}},
                             {"rank 3", {{2, 3, 40}}},
                             {"large", {{5, 66}}, {}, {}, 30},
                             {"many rows", {{301, 48}}},
                             {"tiny", {{2, 64}}, {}, {}, 1e-4}};
  for (Case& c : cases) {
    if (!backward) continue;
    Shape dy = c.in[0];
    dy.back() /= 2;
    c.in.insert(c.in.begin(), dy);
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

/// gelu of the first half of each row times its second half.
const OpDef geglu{
    .name = "geglu",
    .signature = "x[..,2n] -> y[..,n]:x",
    .gradient =
        [](const Grad& g) {
          return g.program.emit(geglu_bwd, {g.dout[0], g.in(0)});
        },
    .reference = ref_geglu,
    .cases = [] { return geglu_cases(false); },
    .bound = {.ulp = 4},  // that of gelu, and the product
    .cost = cost<31>,
    .source = "Shazeer 2020 (arXiv 2002.05202); halves as in HF ModernBertMLP",
};

const OpDef geglu_bwd{
    .name = "geglu_bwd",
    .signature = "dy[..,n] x[..,2n]:dy -> dx[..,2n]:dy",
    .gradient = not_differentiable,
    .reference = ref_geglu_bwd,
    .cases = [] { return geglu_cases(true); },
    .bound = {.ulp = kGegluBwdUlp},
    .cost = cost<45>,
};

}  // namespace lathe::op
