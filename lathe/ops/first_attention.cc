// Attention of only the first token of each row, and its backward pass, without keys and values of the
// others.
#include "lathe/ops/first_attention.h"

#include <algorithm>
#include <cmath>

#include "lathe/ops/attention.h"
#include "lathe/ops/rounding.h"

namespace lathe::op {
namespace {

/// Indices of the inputs that forward and backward share.
struct Places {
  int x, w, b, cu, row_ids, rng;
};
constexpr Places kForward{0, 1, 2, 3, 4, 5}, kBackward{1, 2, 3, 8, 9, 10};
constexpr size_t kForwardInputs = 6;

int64_t rows_of(const Reference& r, const Places& in) { return r.dim(in.row_ids, 0); }

constexpr double kUlp = 16;

/// The sums go over a head's width, the columns, a row's tokens and the rows.
double terms(const Reference& r) {
  const Places& in = r.in.size() == kForwardInputs ? kForward : kBackward;
  return static_cast<double>(r.rows(in.x) + r.cols(in.x) + rows_of(r, in));
}

/// A number and by how much arithmetic may move it, in units of what the bound allows of `magnitude`.
struct Sum {
  double value = 0, error = 0;
  void add(double term, double term_error) { value += term, error += std::abs(term) + term_error; }
};

/// The op on one row; indices are those of its matrices, of a head h and its dimension d < width.
struct Row {
  const Reference& r;
  Places in;
  OperandRounding rounding;
  int64_t row, begin, length, columns, heads, width;
  double scale;

  Row(const Reference& reference, const Places& places, int64_t index)
      : r(reference),
        in(places),
        rounding(operand_rounding(r.in_types[static_cast<size_t>(in.x)].dtype, kUlp, terms(r))),
        row(index),
        begin(cu(index)),
        length(cu(index + 1) - begin),
        columns(r.cols(in.x)),
        heads(r.node.attrs.i("heads")),
        width(columns / heads),
        scale(1 / std::sqrt(static_cast<double>(width))) {}

  double input(int i, int64_t at) const { return r.in[static_cast<size_t>(i)][static_cast<size_t>(at)]; }
  int64_t cu(int64_t i) const { return static_cast<int64_t>(input(in.cu, i)); }
  double x(int64_t token, int64_t c) const { return input(in.x, (begin + token) * columns + c); }
  /// Row h · width + d of the weight of q (part 0), k or v.
  double w(int part, int64_t of_part, int64_t c) const {
    return rounded(input(in.w, (part * columns + of_part) * columns + c),
                   r.in_types[static_cast<size_t>(in.x)].dtype);
  }
  double b(int part, int64_t of_part) const { return input(in.b, part * columns + of_part); }
  double mask(int64_t h, int64_t key) const {
    return attention_mask(r.node.attrs, input(in.row_ids, row), r.in[static_cast<size_t>(in.rng)], h, 0, key);
  }
  int64_t of_head(int64_t h, int64_t c) const { return (row * heads + h) * columns + c; }
  /// The error of a factor that may be rounded to the dtype.
  double factor_error(double value, double error) const {
    return error + rounding.relative * std::abs(value) + rounding.absolute;
  }
};

void put(Reference& r, size_t output, int64_t at, double value, double error) {
  r.out[output][static_cast<size_t>(at)] += value;
  r.magnitude[output][static_cast<size_t>(at)] += error;
}

/// q = x₀ Wqᵀ + bq, sought_h = q_h Wk_h, score = scale · sought_h · x, seen_h = Σ mask p x,
/// y_h = seen_h Wv_hᵀ + bv_h Σ mask p
void ref_forward(Reference& r) {
  for (int64_t row = 0; row < rows_of(r, kForward); ++row) {
    const Row s(r, kForward, row);
    if (s.length == 0) continue;
    std::vector<Sum> q(static_cast<size_t>(s.columns));
    for (int64_t i = 0; i < s.columns; ++i) {
      Sum& sum = q[static_cast<size_t>(i)];
      sum.add(s.b(0, i), 0);
      for (int64_t c = 0; c < s.columns; ++c) sum.add(s.x(0, c) * s.w(0, i, c), 0);
      put(r, 1, row * s.columns + i, sum.value, sum.error);
    }
    for (int64_t h = 0; h < s.heads; ++h) {
      std::vector<Sum> sought(static_cast<size_t>(s.columns)), scores(static_cast<size_t>(s.length));
      for (int64_t c = 0; c < s.columns; ++c) {
        Sum& sum = sought[static_cast<size_t>(c)];
        for (int64_t i = h * s.width; i < (h + 1) * s.width; ++i) {
          const Sum& of_q = q[static_cast<size_t>(i)];
          sum.add(of_q.value * s.w(1, i, c), s.factor_error(of_q.value, of_q.error) * std::abs(s.w(1, i, c)));
        }
        put(r, 2, s.of_head(h, c), sum.value, sum.error);
      }
      double largest = -INFINITY, moved = 0, total = 0;
      for (int64_t t = 0; t < s.length; ++t) {
        Sum& score = scores[static_cast<size_t>(t)];
        for (int64_t c = 0; c < s.columns; ++c) {
          const Sum& of_sought = sought[static_cast<size_t>(c)];
          score.add(of_sought.value * s.x(t, c) * s.scale, of_sought.error * std::abs(s.x(t, c)) * s.scale);
        }
        largest = std::max(largest, score.value), moved = std::max(moved, score.error);
      }
      for (const Sum& score : scores) total += std::exp(score.value - largest);
      const double lse = largest + std::log(total);
      // Of a probability, as a part of it: its score's error and that of the sum.
      const double error = 1 + std::abs(lse) + 2 * moved;
      std::vector<Sum> seen(static_cast<size_t>(s.columns));
      Sum kept;
      for (int64_t t = 0; t < s.length; ++t) {
        const double drawn = std::exp(scores[static_cast<size_t>(t)].value - lse), p = s.mask(h, t) * drawn;
        put(r, 4, h * r.rows(0) + s.begin + t, drawn, drawn * (1 + error));
        kept.add(p, p * error);
        for (int64_t c = 0; c < s.columns; ++c)
          seen[static_cast<size_t>(c)].add(p * s.x(t, c), p * error * std::abs(s.x(t, c)));
      }
      for (int64_t c = 0; c < s.columns; ++c)
        put(r, 3, s.of_head(h, c), seen[static_cast<size_t>(c)].value, seen[static_cast<size_t>(c)].error);
      for (int64_t i = h * s.width; i < (h + 1) * s.width; ++i) {
        Sum y;
        y.add(kept.value * s.b(2, i), kept.error * std::abs(s.b(2, i)));
        for (int64_t c = 0; c < s.columns; ++c) {
          const Sum& of_seen = seen[static_cast<size_t>(c)];
          y.add(of_seen.value * s.w(2, i, c),
                s.factor_error(of_seen.value, of_seen.error) * std::abs(s.w(2, i, c)));
        }
        put(r, 0, row * s.columns + i, y.value, y.error);
      }
    }
  }
}

/// What q's gradient adds: to that of the first token, of Wq and of bq.
void add_query(Reference& r, const Row& s, int64_t i, double dq, double error) {
  put(r, 2, i, dq, error);
  for (int64_t c = 0; c < s.columns; ++c) {
    put(r, 1, s.begin * s.columns + c, dq * s.w(0, i, c), error * std::abs(s.w(0, i, c)));
    put(r, 0, i * s.columns + c, dq * s.x(0, c), error * std::abs(s.x(0, c)));
  }
}

/// t_h = dy_h Wv_h, dp = mask ∘ (t_h · x + dy_h · bv_h), ds = scale · p ∘ (dp − Σ p dp),
/// dsought_h = Σ ds x, dq_h = dsought_h Wk_hᵀ, dx = Σ_h ds sought_h + (mask p) t_h, and dq Wq of the first
/// token; dWv_h = dy_hᵀ seen_h, dbv_h = dy_h Σ mask p, dWk_h = q_hᵀ dsought_h, dWq = dqᵀ x₀, dbq = dq.
void ref_backward(Reference& r) {
  for (int64_t row = 0; row < rows_of(r, kBackward); ++row) {
    const Row s(r, kBackward, row);
    if (s.length == 0) continue;
    for (int64_t h = 0; h < s.heads; ++h) {
      const auto p = [&](int64_t t) { return s.input(7, h * r.rows(1) + s.begin + t); };
      const auto dy = [&](int64_t i) { return s.input(0, row * s.columns + i); };
      std::vector<Sum> t(static_cast<size_t>(s.columns)), dsought(t.size());
      Sum of_bias;
      for (int64_t i = h * s.width; i < (h + 1) * s.width; ++i) {
        of_bias.add(dy(i) * s.b(2, i), 0);
        for (int64_t c = 0; c < s.columns; ++c) t[static_cast<size_t>(c)].add(dy(i) * s.w(2, i, c), 0);
      }
      std::vector<Sum> dp(static_cast<size_t>(s.length));
      Sum delta;
      for (int64_t j = 0; j < s.length; ++j) {
        Sum of_key = of_bias;
        for (int64_t c = 0; c < s.columns; ++c) {
          const Sum& of_t = t[static_cast<size_t>(c)];
          of_key.add(of_t.value * s.x(j, c), of_t.error * std::abs(s.x(j, c)));
        }
        const size_t at = static_cast<size_t>(j);
        dp[at] = {s.mask(h, j) * of_key.value, s.mask(h, j) * of_key.error};
        delta.add(p(j) * dp[at].value, p(j) * dp[at].error);
      }
      double kept = 0;
      for (int64_t j = 0; j < s.length; ++j) {
        const size_t at = static_cast<size_t>(j);
        const double m = s.mask(h, j), ds = s.scale * p(j) * (dp[at].value - delta.value);
        const double ds_error = s.scale * p(j) * (dp[at].error + delta.error);
        kept += m * p(j);
        for (int64_t c = 0; c < s.columns; ++c) {
          const double sought = s.input(5, s.of_head(h, c));
          const Sum& of_t = t[static_cast<size_t>(c)];
          dsought[static_cast<size_t>(c)].add(ds * s.x(j, c), ds_error * std::abs(s.x(j, c)));
          put(r, 1, (s.begin + j) * s.columns + c, ds * sought + m * p(j) * of_t.value,
              (std::abs(ds) + ds_error) * std::abs(sought) + m * p(j) * (std::abs(of_t.value) + of_t.error));
        }
      }
      for (Sum& each : dsought) each.error = s.factor_error(each.value, each.error);
      for (int64_t i = h * s.width; i < (h + 1) * s.width; ++i) {
        Sum dq;
        for (int64_t c = 0; c < s.columns; ++c) {
          const Sum& of_sought = dsought[static_cast<size_t>(c)];
          const double q = s.input(4, row * s.columns + i);
          dq.add(of_sought.value * s.w(1, i, c), of_sought.error * std::abs(s.w(1, i, c)));
          put(r, 0, (s.columns + i) * s.columns + c, q * of_sought.value,
              std::abs(q) * (std::abs(of_sought.value) + of_sought.error));
          const double dw = dy(i) * s.input(6, s.of_head(h, c));
          put(r, 0, (2 * s.columns + i) * s.columns + c, dw, std::abs(dw));
        }
        put(r, 2, 2 * s.columns + i, kept * dy(i), kept * std::abs(dy(i)));
        add_query(r, s, i, dq.value, std::abs(dq.value) + s.factor_error(dq.value, dq.error));
      }
    }
  }
}

/// Replaces what was drawn for the outputs of the forward pass by what it gives.
void adjust_backward(Reference& r) {
  const auto at = [](int i) { return static_cast<size_t>(i); };
  Reference forward{r.node, {}, {}, {}, {}, {}};
  for (const int i :
       {kBackward.x, kBackward.w, kBackward.b, kBackward.cu, kBackward.row_ids, kBackward.rng}) {
    forward.in_types.push_back(r.in_types[at(i)]);
    forward.in.push_back(r.in[at(i)]);
  }
  for (const int i : {0, 4, 5, 6, 7}) {
    forward.out_types.push_back(r.in_types[at(i)]);
    forward.out.emplace_back(r.in[at(i)].size());
    forward.magnitude.emplace_back(r.in[at(i)].size());
  }
  ref_forward(forward);
  for (const int i : {4, 5, 6, 7}) r.in[at(i)] = forward.out[at(i - 3)];
}

struct Layout {
  const char* name;
  int64_t tokens, heads, width;
  std::vector<int32_t> cu;
  double p;
};
const std::vector<Layout> kLayouts = {
    {"one token", 1, 1, 1, {0, 1}, 0},
    {"lengths 3 1 5", 9, 2, 8, {0, 3, 4, 9}, 0},
    {"empty row", 6, 1, 16, {0, 2, 2, 6}, 0},
    {"padding behind", 12, 2, 4, {0, 3, 10}, 0.1},
    {"dropout", 40, 2, 32, {0, 17, 40}, 0.1},
    {"half dropped", 33, 3, 12, {0, 33}, 0.5},
    {"width 17", 45, 5, 17, {0, 21, 45}, 0.1},
    {"long row", 255, 1, 64, {0, 150, 250}, 0.1},
    {"many rows", 70, 2, 24, {0, 3, 5, 8, 12, 20, 21, 30, 31, 33, 36, 40, 44, 46, 50, 51, 60, 61, 66}, 0.1},
};

std::vector<Case> cases(bool backward) {
  std::vector<Case> all;
  for (const Layout& l : kLayouts) {
    const int64_t rows = static_cast<int64_t>(l.cu.size()) - 1, c = l.heads * l.width;
    const Shape one{rows, c}, of_heads{rows, l.heads, c};
    Case each{l.name};
    each.in = {{l.tokens, c}, {3 * c, c}, {3 * c}};
    if (backward) {
      each.in.insert(each.in.begin(), one);
      each.in.insert(each.in.end(), {one, of_heads, of_heads, {l.heads, l.tokens}});
    }
    each.in.insert(each.in.end(), {{rows + 1}, {rows}, {2}});
    each.attrs = {{"heads", l.heads}, {"p", l.p}, {"site", int64_t{5}}};
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < rows; ++i) ids.push_back(3 + i);
    each.ints = {l.cu, ids, {42, 9}};
    each.scale = 0.5;
    if (backward) each.adjust = adjust_backward;
    all.push_back(each);
  }
  return all;
}

/// Products of the rows with three matrices, and of the tokens with two vectors a head; backward twice as
/// many.
Cost cost(const Node& node, const Program& program) {
  const bool backward = node.op == &first_attention_bwd;
  const Places& in = backward ? kBackward : kForward;
  Cost cost = elementwise_cost(node, program, 0);
  const Type& x = program.type(node.in[static_cast<size_t>(in.x)]);
  const double tokens = static_cast<double>(x.shape[0]), columns = static_cast<double>(x.shape[1]);
  const double rows = static_cast<double>(program.type(node.in[static_cast<size_t>(in.row_ids)]).shape[0]);
  const double heads = static_cast<double>(node.attrs.i("heads"));
  cost.flops = (backward ? 2 : 1) * (6 * rows * columns * columns + 4 * tokens * columns * heads);
  return cost;
}

const Attrs kAttrs = {{"heads", int64_t{1}}, {"p", 0.0}, {"site", int64_t{0}}};

}  // namespace

/// What `attention` gives for the first token of each row over linear(x, w, b), whose outputs are q, k and v:
/// the key of a token is Wk x + bk, so q · k = (Wkᵀ q) · x + q · bk, of which the second is the same for all
/// tokens of a row, and Σ p v = Wv Σ p x + bv Σ p.  x: tokens of packed rows, cu as in attention; what is
/// kept for the backward pass: q, `sought` = Wkᵀ q and `seen` = Σ p x (p with dropout) of every head, and p
/// (without). Empty rows give 0, and p for tokens ≥ cu[B]; bk has no effect and the gradient 0.
const OpDef first_attention{
    .name = "first_attention",
    .signature =
        "x[N,C] w[3C,C]:f32 b[3C]:f32 cu[B+1]:i32 row_ids[B]:i32 rng[2]:i32 -> "
        "y[B,C]:x q[B,C]:x sought[B,@heads,C]:f32 seen[B,@heads,C]:x p[@heads,N]:f32",
    .attrs = kAttrs,
    .check = [](std::span<const Type> in,
                const Attrs& attrs) { check_heads("first_attention", in[0].shape[1], attrs); },
    .gradient =
        [](const Grad& g) {
          const auto d = g.program.emit(first_attention_bwd,
                                        {g.dout[0], g.in(0), g.in(1), g.in(2), g.out(1), g.out(2), g.out(3),
                                         g.out(4), g.in(3), g.in(4), g.in(5)},
                                        g.node.attrs);
          return std::vector<Value>{d[1], d[0], d[2], {}, {}, {}};
        },
    .auxiliary_outputs = 4,
    .reference = ref_forward,
    .cases = [] { return cases(false); },
    .bound = {.ulp = kUlp, .terms = terms},
    .cost = cost,
    .optional = true,
    .source =
        "Vaswani et al. 2017 (arXiv 1706.03762), 3.2, its products taken in another order; mask "
        "convention of HF BertSelfAttention",
};

const OpDef first_attention_bwd{
    .name = "first_attention_bwd",
    .signature =
        "dy[B,C] x[N,C]:dy w[3C,C]:f32 b[3C]:f32 q[B,C]:dy sought[B,@heads,C]:f32 "
        "seen[B,@heads,C]:dy p[@heads,N]:f32 cu[B+1]:i32 row_ids[B]:i32 rng[2]:i32 -> "
        "dw[3C,C]:f32 dx[N,C]:dy db[3C]:f32",
    .attrs = kAttrs,
    .check = [](std::span<const Type> in,
                const Attrs& attrs) { check_heads("first_attention_bwd", in[0].shape[1], attrs); },
    .gradient = not_differentiable,
    .reference = ref_backward,
    .cases = [] { return cases(true); },
    .bound = {.ulp = kUlp, .terms = terms},
    .cost = cost,
    .optional = true,
};

}  // namespace lathe::op
