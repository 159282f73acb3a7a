// Attention over packed sequences, all keys of a sequence, those up to the query or those within a window,
// with dropout of the probabilities, and its backward pass.
#include "lathe/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/philox.h"
#include "lathe/ops/qkv_heads.h"

namespace lathe::op {
namespace {

/// Indices of the inputs that forward and backward share.
struct Places {
  int qkv, cu, row_ids, rng;
};
constexpr Places kForward{0, 1, 2, 3}, kBackward{1, 4, 5, 6};

/// What one head's probability of a key is multiplied with by dropout of a row's attention: 0 if dropped,
/// else 1 / (1 − p).  rng: seed and step.
double attention_mask(const Attrs& attrs, double row_id, const std::vector<double>& rng, int64_t head,
                      int64_t query, int64_t key) {
  const double p = attrs.f("p");
  if (p == 0) return 1;
  const auto words = philox({static_cast<uint32_t>(key / 8), static_cast<uint32_t>(head << 16 | query),
                             static_cast<uint32_t>(row_id), static_cast<uint32_t>(attrs.i("site"))},
                            static_cast<uint32_t>(static_cast<int64_t>(rng[0])),
                            static_cast<uint32_t>(static_cast<int64_t>(rng[1])));
  return dropout_bits(words, static_cast<int>(key % 8)) < dropout_threshold(p) ? 0 : dropout_scale(p);
}

/// One head of one sequence of the reference: probabilities before and after dropout, recomputed on demand.
struct Head {
  const Reference& r;
  Places in;
  QkvHeads of;
  int64_t begin, length, width, head, row;
  double scale;

  /// Where element d of token t lies in [N, C], and q (part 0), k or v of it in [N, W].
  size_t index(int64_t t, int64_t d) const {
    return static_cast<size_t>(((begin + t) * of.heads + head) * width + d);
  }
  size_t index(int part, int64_t t, int64_t d) const {
    const int64_t place = part == 0 ? head : of.heads + (part - 1) * of.kv_heads + head / of.group();
    return static_cast<size_t>(((begin + t) * of.all() + place) * width + d);
  }
  double at(int input, int64_t t, int64_t d) const { return r.in[static_cast<size_t>(input)][index(t, d)]; }
  double q(int64_t t, int64_t d) const { return r.in[static_cast<size_t>(in.qkv)][index(0, t, d)]; }
  double k(int64_t t, int64_t d) const { return r.in[static_cast<size_t>(in.qkv)][index(1, t, d)]; }
  double v(int64_t t, int64_t d) const { return r.in[static_cast<size_t>(in.qkv)][index(2, t, d)]; }
  double mask(int64_t query, int64_t key) const {
    return attention_mask(r.node.attrs, r.in[static_cast<size_t>(in.row_ids)][static_cast<size_t>(row)],
                          r.in[static_cast<size_t>(in.rng)], head, query, key);
  }
  /// The keys that a query sees: from the first to before the second.
  std::pair<int64_t, int64_t> keys(int64_t query) const {
    const int64_t given = r.node.attrs.i("window"), window = given == 0 ? length : given;
    const int64_t after = r.node.attrs.b("causal") ? 0 : window;
    return {std::max<int64_t>(0, query - window), std::min(length, query + after + 1)};
  }
  /// Softmax of one query's scores; returns the log of the sum of exponentials.
  double probabilities(int64_t query, std::vector<double>& p) const {
    p.assign(static_cast<size_t>(length), 0);
    double largest = -INFINITY, sum = 0;
    const auto [first, end] = keys(query);
    for (int64_t t = first; t < end; ++t) {
      for (int64_t d = 0; d < width; ++d) p[static_cast<size_t>(t)] += q(query, d) * k(t, d) * scale;
      largest = std::max(largest, p[static_cast<size_t>(t)]);
    }
    for (int64_t t = first; t < end; ++t)
      sum += p[static_cast<size_t>(t)] = std::exp(p[static_cast<size_t>(t)] - largest);
    for (double& x : p) x /= sum;
    return largest + std::log(sum);
  }
};

template <typename F>
void for_each_head(Reference& r, const Places& in, F f) {
  const QkvHeads of = qkv_heads("attention", r.cols(in.qkv), r.node.attrs);
  const int64_t width = of.width;
  const double given = r.node.attrs.f("scale");
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(width)) : given;
  const auto& bounds = r.in[static_cast<size_t>(in.cu)];
  for (size_t row = 0; row + 1 < bounds.size(); ++row)
    for (int64_t h = 0; h < of.heads; ++h) {
      const int64_t begin = static_cast<int64_t>(bounds[row]), end = static_cast<int64_t>(bounds[row + 1]);
      f(Head{r, in, of, begin, end - begin, width, h, static_cast<int64_t>(row), scale});
    }
}

/// The tokens, which dk and dv sum over for each head of a group, + C, the width of y forward and of dy
/// backward.
double longest(const Reference& r) {
  const int64_t heads = r.node.attrs.i("heads"), kv_heads = r.node.attrs.i("kv_heads");
  const int64_t group = kv_heads == 0 ? 1 : heads / kv_heads;
  return static_cast<double>(r.dim(0, 0) * group + std::min(r.cols(0), r.out_types[0].shape.back()));
}
constexpr double kUlp = 8, kBackwardUlp = 16;

/// Products of bf16 and f16 tensors may take factors that were computed on the way, as probabilities, rounded
/// to that dtype, as PyTorch does: each term x of a sum then is x (1 + δ), |δ| ≤ u, which moves the sum by at
/// most u Σ|x|, and its rounded value by (1 + u) times that.  u is 2⁻⁸ or 2⁻¹¹; f16 has no finer steps than
/// 2⁻²⁴, so that a rounded factor may also be off by 2⁻²⁵ however small it is.  The results are these as
/// parts of `magnitude`, of which the bound allows ulp · 2⁻²⁴ · √terms.
struct OperandRounding {
  double relative = 0;  ///< times |x|
  double absolute = 0;  ///< times the other factor of x
};
OperandRounding rounding_of(const Reference& r, double ulp) {
  const DType dtype = r.out_types[0].dtype;
  if (dtype == DType::f32) return {};
  const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const double allowed = ulp * 0x1p-24 * std::sqrt(longest(r));
  return {unit * (1 + unit) / allowed, dtype == DType::f16 ? 0x1p-25 * (1 + unit) / allowed : 0};
}

void ref_attention(Reference& r) {
  const int64_t tokens = r.dim(0, 0);
  const OperandRounding rounding = rounding_of(r, kUlp);
  std::vector<double> p;
  for_each_head(r, kForward, [&](const Head& h) {
    for (int64_t t = 0; t < h.length; ++t) {
      const double lse = h.probabilities(t, p);
      r.out[1][static_cast<size_t>(h.head * tokens + h.begin + t)] = lse;
      r.magnitude[1][static_cast<size_t>(h.head * tokens + h.begin + t)] = 1 + std::abs(lse);
      const auto [first, end] = h.keys(t);
      for (int64_t s = first; s < end; ++s) {
        const double mask = h.mask(t, s), kept = p[static_cast<size_t>(s)] * mask;
        for (int64_t d = 0; d < h.width; ++d) {
          const double term = kept * h.v(s, d);
          r.out[0][h.index(t, d)] += term;
          r.magnitude[0][h.index(t, d)] += std::abs(term) * (1 + std::abs(lse) + rounding.relative) +
                                           mask * std::abs(h.v(s, d)) * rounding.absolute;
        }
      }
    }
  });
}

/// inputs: dy qkv y lse cu row_ids rng.  P = exp(score − lse), dS = P ∘ (mask ∘ (dy·vᵀ) − Σ dy∘y),
/// dq = scale · dS·k, dk = scale · dSᵀ·q, dv = (P ∘ mask)ᵀ·dy.
void ref_attention_bwd(Reference& r) {
  const int64_t tokens = r.dim(0, 0);
  const OperandRounding rounding = rounding_of(r, kBackwardUlp);
  for_each_head(r, kBackward, [&](const Head& h) {
    const auto accumulate = [&](size_t at, double term, double magnitude) {
      r.out[0][at] += term;
      r.magnitude[0][at] += magnitude;
    };
    for (int64_t t = 0; t < h.length; ++t) {
      double delta = 0, delta_magnitude = 0;
      for (int64_t d = 0; d < h.width; ++d) {
        delta += h.at(0, t, d) * h.at(2, t, d);
        delta_magnitude += std::abs(h.at(0, t, d) * h.at(2, t, d));
      }
      const auto [first, end] = h.keys(t);
      for (int64_t s = first; s < end; ++s) {
        const double mask = h.mask(t, s);
        double score = 0, dp = 0, dp_magnitude = 0, score_magnitude = 0;
        for (int64_t d = 0; d < h.width; ++d) {
          score += h.q(t, d) * h.k(s, d) * h.scale;
          score_magnitude += std::abs(h.q(t, d) * h.k(s, d)) * h.scale;
          dp += h.at(0, t, d) * h.v(s, d) * mask;
          dp_magnitude += std::abs(h.at(0, t, d) * h.v(s, d)) * mask;
        }
        const double lse = r.in[3][static_cast<size_t>(h.head * tokens + h.begin + t)];
        const double probability = std::exp(score - lse), error = 1 + score_magnitude + std::abs(lse);
        const double ds = probability * (dp - delta) * h.scale;
        const double ds_magnitude = probability * (dp_magnitude + delta_magnitude) * h.scale * error +
                                    std::abs(ds) * rounding.relative + h.scale * rounding.absolute;
        for (int64_t d = 0; d < h.width; ++d) {
          accumulate(h.index(0, t, d), ds * h.k(s, d), ds_magnitude * std::abs(h.k(s, d)));
          accumulate(h.index(1, s, d), ds * h.q(t, d), ds_magnitude * std::abs(h.q(t, d)));
          const double dv = probability * mask * h.at(0, t, d);
          accumulate(h.index(2, s, d), dv,
                     std::abs(dv) * (error + rounding.relative) +
                         mask * std::abs(h.at(0, t, d)) * rounding.absolute);
        }
      }
    }
  });
}

/// Replaces the drawn y and lse of a backward case by what the forward pass gives.
void adjust_backward(Reference& r) {
  Reference forward{r.node,
                    {r.in_types[1], r.in_types[4], r.in_types[5], r.in_types[6]},
                    {r.in_types[2], r.in_types[3]},
                    {r.in[1], r.in[4], r.in[5], r.in[6]},
                    {std::vector<double>(r.in[2].size()), std::vector<double>(r.in[3].size())},
                    {std::vector<double>(r.in[2].size()), std::vector<double>(r.in[3].size())}};
  ref_attention(forward);
  r.in[2] = forward.out[0];
  r.in[3] = forward.out[1];
}

struct Layout {
  const char* name;
  int64_t tokens, heads, width;
  std::vector<int32_t> cu;
  double p;
  int64_t window = 0, longest_row = 0, kv_heads = 0;
  bool causal = false;
};
const std::vector<Layout> kLayouts = {
    {"one token", 1, 1, 1, {0, 1}, 0},
    {"lengths 3 1 5", 9, 2, 8, {0, 3, 4, 9}, 0},
    {"empty row", 6, 1, 16, {0, 2, 2, 6}, 0},
    {"padding behind", 12, 2, 4, {0, 3, 10}, 0.1},
    {"dropout", 40, 2, 32, {0, 17, 40}, 0.1},
    {"half dropped", 33, 3, 12, {0, 33}, 0.5},
    {"width 64", 70, 1, 64, {0, 5, 70}, 0.1},
    {"long row", 255, 1, 64, {0, 150, 250}, 0.1},
    {"rows of several tiles", 520, 1, 64, {0, 190, 191, 191, 290}, 0.1},
    {"short rows and a long one", 256, 1, 64, {0, 190, 191, 191, 250}, 0.1},
    {"rows of two tiles, their lengths known", 250, 1, 64, {0, 126, 250}, 0.1, 0, 126},
    {"long row, its length known", 255, 1, 64, {0, 150, 250}, 0.1, 0, 150},
    {"rows of several tiles, their lengths known", 520, 1, 64, {0, 190, 191, 191, 290}, 0.1, 0, 190},
    {"much padding behind", 400, 2, 64, {0, 70}, 0.1},
    {"width 24", 140, 2, 24, {0, 135, 135, 140}, 0},
    {"width 72", 90, 2, 72, {0, 83, 90}, 0.1},
    {"width 200", 80, 1, 200, {0, 75}, 0.2},
    {"window", 97, 2, 8, {0, 70, 72, 95}, 0.1, 3},
    {"window of one neighbour", 40, 1, 16, {0, 40}, 0, 1},
    {"window beyond the rows", 45, 2, 24, {0, 40, 45}, 0.1, 64},
    {"window, wide", 140, 1, 72, {0, 135, 138}, 0.1, 20},
    {"window, long row", 1310, 1, 8, {0, 1300, 1310}, 0.1, 33},
    {"window, width 64, long row", 700, 1, 64, {0, 690}, 0.1, 64},
    {"window, width 64, rows of several tiles", 520, 2, 64, {0, 190, 191, 191, 510}, 0, 30},
    {"window, width 48, short rows", 125, 1, 48, {0, 100, 110, 120}, 0.1, 7},
    {"window, width 40, beyond the rows", 90, 2, 40, {0, 60, 90}, 0, 64},
    {"heads 4 of 2", 60, 4, 16, {0, 17, 17, 57}, 0.1, 0, 0, 2},
    {"heads 16 of 8, width 128", 40, 16, 128, {0, 33, 40}, 0, 0, 0, 8},
    {"heads 4 of 1, window, long row", 700, 4, 8, {0, 5, 690}, 0.1, 40, 0, 1},
    {"heads 2 of 1, two blocks of keys", 560, 2, 16, {0, 3, 550}, 0.1, 0, 0, 1},
    {"causal", 97, 2, 16, {0, 70, 72, 95}, 0.1, 0, 0, 0, true},
    {"causal, rows of a token", 6, 2, 16, {0, 1, 2, 3, 5}, 0.1, 0, 0, 1, true},
    {"causal, heads 9 of 3", 150, 9, 64, {0, 40, 41, 147}, 0, 0, 0, 3, true},
    {"causal, heads 4 of 2, width 256", 70, 4, 256, {0, 2, 69}, 0.1, 0, 0, 2, true},
    {"causal, width 80", 200, 1, 80, {0, 190}, 0, 0, 0, 0, true},
    {"causal, several blocks of keys", 1100, 2, 16, {0, 7, 1095}, 0.1, 0, 0, 1, true},
    {"causal, window", 240, 4, 64, {0, 35, 235}, 0.1, 20, 0, 2, true},
    {"causal, window of one token", 70, 2, 16, {0, 5, 70}, 0, 1, 0, 1, true},
    {"causal, window, several blocks of keys", 1310, 2, 8, {0, 1300, 1310}, 0.1, 600, 0, 1, true},
    {"causal, window beyond the rows", 45, 2, 24, {0, 40, 45}, 0.1, 64, 0, 0, true},
};

std::vector<Case> cases(bool backward) {
  std::vector<Case> all;
  for (const Layout& l : kLayouts) {
    const int64_t rows = static_cast<int64_t>(l.cu.size()) - 1;
    const int64_t kv_heads = l.kv_heads == 0 ? l.heads : l.kv_heads;
    const Shape tokens{l.tokens, l.heads * l.width}, qkv{l.tokens, (l.heads + 2 * kv_heads) * l.width};
    Case c{l.name};
    c.in = backward ? std::vector<Shape>{tokens, qkv, tokens, {l.heads, l.tokens}} : std::vector<Shape>{qkv};
    c.in.insert(c.in.end(), {{rows + 1}, {rows}, {2}});
    c.attrs = {{"heads", l.heads},   {"kv_heads", l.kv_heads}, {"p", l.p},
               {"site", int64_t{5}}, {"window", l.window},     {"causal", l.causal}};
    c.optional = l.causal || l.kv_heads != 0;
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < rows; ++i) ids.push_back(3 + i);
    c.ints = {l.cu, ids, {42, 9}};
    c.scale = 2;
    c.longest_row = l.longest_row;
    if (backward) c.adjust = adjust_backward;
    all.push_back(c);
  }
  return all;
}

Cost cost(const Node& node, const Program& program) {
  const Places& in = node.op == &attention_bwd ? kBackward : kForward;
  Cost cost = elementwise_cost(node, program, 0);
  const Type& qkv = program.type(node.in[static_cast<size_t>(in.qkv)]);
  const double rows = static_cast<double>(program.type(node.in[static_cast<size_t>(in.row_ids)]).shape[0]);
  const double tokens = static_cast<double>(qkv.shape[0]);
  const double width = static_cast<double>(qkv_heads(node.op->name, qkv.shape[1], node.attrs).columns());
  const double pairs =
      rows * attended_pairs(tokens / std::max(1.0, rows), node.attrs.i("window"), node.attrs.b("causal"));
  cost.flops = (node.op == &attention_bwd ? 10 : 4) * pairs * width;
  return cost;
}

/// Of attention and its backward pass.
const Attrs kAttrs{
    {"heads", int64_t{1}}, {"kv_heads", int64_t{0}}, {"scale", 0.0},         {"p", 0.0},
    {"site", int64_t{0}},  {"causal", false},        {"window", int64_t{0}}, {"longest", int64_t{0}}};

std::vector<Type> infer(std::span<const Type> in, const Attrs& attrs) {
  static const OpDef rule{.name = "attention",
                          .signature = "qkv[N,W] cu[B+1]:i32 row_ids[B]:i32 rng[2]:i32 -> lse[@heads,N]:f32",
                          .attrs = kAttrs};
  const QkvHeads of = qkv_heads("attention", in[0].shape.size() == 2 ? in[0].shape[1] : 0, attrs);
  const Type lse = infer_types(rule, in, attrs)[0];
  return {{in[0].dtype, {in[0].shape[0], of.columns()}}, lse};
}

}  // namespace

double attended_pairs(double tokens, int64_t window, bool causal) {
  const double before = static_cast<double>(window);
  const bool within = 0 < window && before < tokens;
  if (causal) return within ? tokens * (before + 1) - before * (before + 1) / 2 : tokens * (tokens + 1) / 2;
  return within ? tokens * (2 * before + 1) - before * (before + 1) : tokens * tokens;
}

bool is_encoders(const Attrs& attrs) {
  const int64_t kv_heads = attrs.i("kv_heads");
  return !attrs.b("causal") && (kv_heads == 0 || kv_heads == attrs.i("heads"));
}

/// Attention over packed sequences.  qkv: QkvHeads, of each token q, k and v of every head, as the one
/// product that computes them writes it; cu: [B+1], ascending; rows of tokens ≥ cu[B] give 0.  row_ids:
/// ordinal of each row's sample in the global batch; rng = {seed, update step}.  kv_heads: 0: as many as
/// heads.  scale 0: 1/√D.  causal: a query sees no keys after it.  window: it sees the keys of its row that
/// are at most so many tokens away (HF sliding_window − 1, where causal); 0: all of them.  longest: no row
/// has more tokens, for which a device plans memory; 0: it is not known.  lse: natural log of the sum of the
/// exponentials of the scaled scores.
const OpDef attention{
    .name = "attention",
    .signature = "qkv[N,W] cu[B+1]:i32 row_ids[B]:i32 rng[2]:i32 -> y[N,C]:qkv lse[@heads,N]:f32",
    .attrs = kAttrs,
    .infer = infer,
    .gradient =
        [](const Grad& g) {
          auto d = g.program.emit(attention_bwd,
                                  {g.dout[0], g.in(0), g.out(0), g.out(1), g.in(1), g.in(2), g.in(3)},
                                  g.node.attrs);
          d.resize(4);
          return d;
        },
    .auxiliary_outputs = 1,
    .reference = ref_attention,
    .cases = [] { return cases(false); },
    .bound = {.ulp = kUlp, .terms = longest},
    .cost = cost,
    .source = "Dao 2023 alg. 1 (arXiv 2307.08691); mask convention of HF BertSelfAttention",
};

const OpDef attention_bwd{
    .name = "attention_bwd",
    .signature =
        "dy[N,C] qkv[N,W]:dy y[N,C]:dy lse[@heads,N]:f32 cu[B+1]:i32 row_ids[B]:i32 rng[2]:i32 -> "
        "dqkv[N,W]:dy",
    .attrs = kAttrs,
    .check =
        [](std::span<const Type> in, const Attrs& attrs) {
          const QkvHeads of = qkv_heads("attention_bwd", in[1].shape[1], attrs);
          if (in[0].shape[1] != of.columns())
            fail(ErrorCode::kShape, "attention_bwd: dy has {} columns, expected {}: {} heads of {}",
                 in[0].shape[1], of.columns(), of.heads, of.width);
        },
    .gradient = not_differentiable,
    .reference = ref_attention_bwd,
    .cases = [] { return cases(true); },
    .bound = {.ulp = kBackwardUlp, .terms = longest},
    .cost = cost,
    .source = "Dao 2023 alg. 2 (arXiv 2307.08691)",
};

}  // namespace lathe::op
