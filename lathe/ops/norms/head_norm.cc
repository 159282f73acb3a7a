// Normalisation of each head's query and key by its root mean square.
#include "lathe/ops/norms/head_norm.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/ops/qkv_heads.h"

namespace lathe::op {
namespace {

QkvHeads heads_of(const Reference& r, int qkv) { return qkv_heads("head_norm", r.cols(qkv), r.node.attrs); }

/// f(token, head among those of q and k, its first place in qkv, its place in rstd, 0 for q and 1 for k).
template <typename F>
void for_heads(const Reference& r, int qkv, F f) {
  const QkvHeads of = heads_of(r, qkv);
  const int64_t normal = of.heads + of.kv_heads;
  for (int64_t n = 0; n < r.rows(qkv); ++n)
    for (int64_t head = 0; head < normal; ++head)
      f(static_cast<size_t>(n * r.cols(qkv) + head * of.width), static_cast<size_t>(n * normal + head),
        head < of.heads ? size_t{0} : size_t{1});
}

double weight(const Reference& r, double gamma) { return r.node.attrs.b("plus_one") ? 1 + gamma : gamma; }

void ref_head_norm(Reference& r) {
  const size_t width = static_cast<size_t>(heads_of(r, 0).width);
  r.out[0] = r.in[0];  // v stays
  for_heads(r, 0, [&](size_t at, size_t place, size_t part) {
    double square = 0;
    for (size_t d = 0; d < width; ++d)
      square += r.in[0][at + d] * r.in[0][at + d] / static_cast<double>(width);
    const double rstd = 1 / std::sqrt(square + r.node.attrs.f("eps"));
    for (size_t d = 0; d < width; ++d)
      r.out[0][at + d] = r.in[0][at + d] * rstd * weight(r, r.in[1 + part][d]);
    r.out[1][place] = rstd;
  });
}

/// As rms_norm_bwd for each head; the gradients of the weights are summed over tokens and heads.
void ref_head_norm_bwd(Reference& r) {
  const size_t width = static_cast<size_t>(heads_of(r, 1).width);
  r.out[0] = r.in[0];
  for_heads(r, 1, [&](size_t at, size_t place, size_t part) {
    const double rstd = r.in[4][place];
    double b = 0, absolute = 0;
    for (size_t d = 0; d < width; ++d) {
      const double dy = r.in[0][at + d], xhat = r.in[1][at + d] * rstd;
      const double term = dy * weight(r, r.in[2 + part][d]) * xhat / static_cast<double>(width);
      b += term;
      absolute += std::abs(term);
      r.out[1 + part][d] += dy * xhat;
      r.magnitude[1 + part][d] += std::abs(dy * xhat);
    }
    for (size_t d = 0; d < width; ++d) {
      const double xhat = r.in[1][at + d] * rstd, g = r.in[0][at + d] * weight(r, r.in[2 + part][d]);
      r.out[0][at + d] = rstd * (g - xhat * b);
      r.magnitude[0][at + d] = std::abs(rstd) * (std::abs(g) + std::abs(xhat) * absolute);
    }
  });
}

std::vector<Type> infer(std::span<const Type> in, const Attrs& attrs) {
  static const OpDef rule{.name = "head_norm",
                          .signature = "qkv[N,W] q_weight[D]:f32 k_weight[D]:f32 -> y[N,W]:qkv"};
  const Type y = infer_types(rule, in, attrs)[0];
  const QkvHeads of = qkv_heads("head_norm", y.shape[1], attrs);
  if (in[1].shape[0] != of.width)
    fail(ErrorCode::kShape, "head_norm: found weights of {} columns, expected {}, those of a head",
         in[1].shape[0], of.width);
  return {y, {DType::f32, {y.shape[0], of.heads + of.kv_heads}}};
}

struct Layout {
  const char* name;
  int64_t tokens, heads, kv_heads, width;
  bool plus_one = false;
  double eps = 1e-6, scale = 1;
};
constexpr Layout kLayouts[] = {
    {"one token", 1, 1, 0, 1},
    {"equal heads", 5, 3, 0, 12},
    {"heads 16 of 8, width 128", 7, 16, 8, 128},
    {"heads 4 of 1, width 256, plus one", 3, 4, 1, 256, true},
    {"many tokens", 1001, 2, 1, 24},
    {"zeros", 3, 2, 1, 8, false, 1e-5, 0},
    {"magnitude 1e4", 3, 2, 1, 64, false, 1e-6, 1e4},
};

std::vector<Case> cases(bool backward) {
  std::vector<Case> all;
  for (const Layout& l : kLayouts) {
    const int64_t kv_heads = l.kv_heads == 0 ? l.heads : l.kv_heads;
    const Shape qkv{l.tokens, (l.heads + 2 * kv_heads) * l.width};
    Case c{l.name, {qkv, {l.width}, {l.width}}};
    c.attrs = {{"heads", l.heads}, {"kv_heads", l.kv_heads}, {"plus_one", l.plus_one}};
    c.scale = l.scale;
    if (backward) {
      c.in.insert(c.in.begin(), qkv);
      c.in.push_back({l.tokens, l.heads + kv_heads});
      c.scale = 1;
    } else {
      c.attrs["eps"] = l.eps;
    }
    all.push_back(std::move(c));
  }
  return all;
}

Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 5); }

}  // namespace

/// q and k of each head are divided by their root mean square and multiplied with the weights, or 1 + weights
/// with plus_one; v stays.  qkv: QkvHeads; rstd: of the heads of q, then of k.
const OpDef head_norm{
    .name = "head_norm",
    .signature = "qkv[N,W] q_weight[D]:f32 k_weight[D]:f32 -> y[N,W]:qkv rstd[N,H]:f32",
    .attrs = {{"heads", int64_t{1}}, {"kv_heads", int64_t{0}}, {"eps", 1e-6}, {"plus_one", false}},
    .infer = infer,
    .gradient =
        [](const Grad& g) {
          Attrs attrs = g.node.attrs;
          attrs.erase("eps");
          return g.program.emit(head_norm_bwd, {g.dout[0], g.in(0), g.in(1), g.in(2), g.out(1)}, attrs);
        },
    .auxiliary_outputs = 1,
    .reference = ref_head_norm,
    .cases = [] { return cases(false); },
    // as rms_norm, over the columns of a head
    .bound = {.ulp = 4, .terms = [](const Reference& r) { return static_cast<double>(r.cols(1)); }},
    .cost = cost,
    .optional = true,
    .source = "HF Qwen3Attention and Gemma3Attention: q_norm, k_norm",
};

const OpDef head_norm_bwd{
    .name = "head_norm_bwd",
    .signature =
        "dy[N,W] qkv[N,W]:dy q_weight[D]:f32 k_weight[D]:f32 rstd[N,H]:f32 -> dqkv[N,W]:dy "
        "dq_weight[D]:f32 dk_weight[D]:f32",
    .attrs = {{"heads", int64_t{1}}, {"kv_heads", int64_t{0}}, {"plus_one", false}},
    .check =
        [](std::span<const Type> in, const Attrs& attrs) {
          const QkvHeads of = qkv_heads("head_norm_bwd", in[1].shape[1], attrs);
          if (in[2].shape[0] != of.width || in[4].shape[1] != of.heads + of.kv_heads)
            fail(ErrorCode::kShape, "head_norm_bwd: found weights {} and rstd {}, expected {} columns and {}",
                 to_string(in[2]), to_string(in[4]), of.width, of.heads + of.kv_heads);
        },
    .gradient = not_differentiable,
    .reference = ref_head_norm_bwd,
    .cases = [] { return cases(true); },
    .bound = {.ulp = 4,
              .terms =
                  [](const Reference& r) {
                    const int64_t sums = r.rows(1) * heads_of(r, 1).heads;
                    return static_cast<double>(std::max(r.cols(2), sums));
                  }},
    .cost = cost,
    .optional = true,
};

}  // namespace lathe::op
