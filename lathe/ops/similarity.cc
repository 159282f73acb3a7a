// How alike the vectors of two texts are, and what is learnt from that.
#include "lathe/ops/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

double columns(const Reference& r) { return static_cast<double>(r.cols(0)); }

void ref_row_scores(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  const double shift = r.node.attrs.f("shift");
  const RowScore kind = row_score(r.node.attrs);
  const bool is_dot = kind == RowScore::kDot || kind == RowScore::kOneMinusDot;
  for (size_t row = 0; row < r.out[0].size(); ++row) {
    double sum = 0, absolute = 0;
    for (size_t c = row * cols; c < (row + 1) * cols; ++c) {
      const double a = r.in[0][c], b = r.in[1][c], d = a - b + shift;
      const double term = is_dot ? a * b : kind == RowScore::kEuclidean ? d * d : std::abs(d);
      sum += term;
      // A difference has the errors of its operands.
      absolute += is_dot                         ? std::abs(term)
                  : kind == RowScore::kEuclidean ? std::abs(d) * (std::abs(a) + std::abs(b) + std::abs(shift))
                                                 : std::abs(a) + std::abs(b) + std::abs(shift);
    }
    const bool is_root = kind == RowScore::kEuclidean;
    r.out[0][row] = is_root ? std::sqrt(sum) : kind == RowScore::kOneMinusDot ? 1 - sum : sum;
    r.magnitude[0][row] = is_root ? (sum > 0 ? absolute / std::sqrt(sum) : 0) : absolute;
  }
}

/// At a distance of 0 the gradient is 0, as that of torch.linalg.vector_norm; so is that of |0|.
void ref_row_scores_bwd(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(1));
  const double shift = r.node.attrs.f("shift");
  const RowScore kind = row_score(r.node.attrs);
  for (size_t row = 0; row < r.in[0].size(); ++row) {
    const double ds = r.in[0][row], s = r.in[3][row];
    for (size_t c = row * cols; c < (row + 1) * cols; ++c) {
      const double a = r.in[1][c], b = r.in[2][c], d = a - b + shift;
      const double size = std::abs(a) + std::abs(b) + std::abs(shift);
      if (kind == RowScore::kDot || kind == RowScore::kOneMinusDot) {
        const double sign = kind == RowScore::kDot ? 1 : -1;
        r.out[0][c] = sign * ds * b, r.out[1][c] = sign * ds * a;
        r.magnitude[0][c] = std::abs(ds * b), r.magnitude[1][c] = std::abs(ds * a);
        continue;
      }
      const bool is_root = kind == RowScore::kEuclidean;
      const double slope = is_root ? (s == 0 ? 0 : d / s) : (d > 0) - (d < 0);
      r.out[0][c] = ds * slope, r.out[1][c] = -ds * slope;
      r.magnitude[0][c] = r.magnitude[1][c] = std::abs(ds) * (is_root ? (s == 0 ? 0 : size / s) : 1);
    }
  }
}

std::vector<Value> row_scores_gradient(const Grad& g) {
  return g.program.emit(row_scores_bwd, {g.dout[0], g.in(0), g.in(1), g.out(0)}, g.node.attrs);
}

void ref_cosent(Reference& r) {
  const std::vector<double>&s = r.in[0], &rank = r.in[1];
  const double factor = r.node.attrs.f("factor");
  double largest = 0, sum = 0;
  const auto for_pairs = [&](auto f) {
    for (size_t i = 0; i < s.size(); ++i)
      for (size_t j = 0; j < s.size(); ++j)
        if (rank[i] < rank[j]) f(i, j, factor * (s[i] - s[j]));
  };
  for_pairs([&](size_t, size_t, double x) { largest = std::max(largest, x); });
  sum = std::exp(-largest);
  for_pairs([&](size_t, size_t, double x) { sum += std::exp(x - largest); });
  r.out[0][0] = largest + std::log(sum);
  r.magnitude[0][0] = std::abs(largest) + std::abs(std::log(sum)) + 1;
  for_pairs([&](size_t i, size_t j, double x) {
    const double share = factor * std::exp(x - largest) / sum;
    // The exponent's error is that of its operands.
    const double error = share * (1 + factor * (std::abs(s[i]) + std::abs(s[j])) + std::abs(largest));
    r.out[1][i] += share, r.out[1][j] -= share;
    r.magnitude[1][i] += error, r.magnitude[1][j] += error;
  });
}

void ref_pair_loss(Reference& r) {
  const PairLoss kind = pair_loss_kind(r.node.attrs);
  const double margin = r.node.attrs.f("margin"), n = static_cast<double>(r.in[0].size());
  for (size_t i = 0; i < r.in[0].size(); ++i) {
    const double s = r.in[0][i], o = r.in[1][i];
    if (kind == PairLoss::kTriplet) {
      const double over = std::max(0.0, s - o + margin);
      r.out[0][0] += over / n;
      r.magnitude[0][0] += (std::abs(s) + std::abs(o) + std::abs(margin)) / n;
      r.out[1][i] = (over > 0) / n, r.out[2][i] = -(over > 0) / n;
      r.magnitude[1][i] = r.magnitude[2][i] = 1 / n;
      continue;
    }
    const double near = std::max(0.0, margin - s), size = std::abs(margin) + std::abs(s);
    r.out[0][0] += (o * s * s + (1 - o) * near * near) / 2 / n;
    r.magnitude[0][0] += (std::abs(o) * s * s + (1 + std::abs(o)) * size * size) / 2 / n;
    r.out[1][i] = (o * s - (1 - o) * near) / n;
    r.magnitude[1][i] = (std::abs(o * s) + (1 + std::abs(o)) * size) / n;
    r.out[2][i] = (s * s - near * near) / 2 / n;
    r.magnitude[2][i] = (s * s + size * size) / 2 / n;
  }
}

Value by_loss(const Grad& g, int output) { return g.program.emit(times, {g.out(output), g.dout[0]})[0]; }

std::vector<Case> row_cases(bool backward) {
  std::vector<Case> all;
  for (const char* kind : {"dot", "euclidean", "manhattan", "one_minus_dot"})
    for (const double shift : {0.0, 1e-6})
      for (const Shape& s : {Shape{1, 1}, Shape{3, 33}, Shape{300, 48}, Shape{2, 1100}}) {
        if (shift != 0 && (kind[0] == 'd' || kind[0] == 'o' || s[0] != 3)) continue;
        Case c{fmt::format("{}, {}", to_string(s), kind), {s, s}};
        if (shift != 0) c.name += ", shifted";
        c.attrs = {{"kind", std::string(kind)}, {"shift", shift}};
        if (backward) {
          c.in = {{s[0]}, s, s, {s[0]}};
          c.adjust = [](Reference& r) {  // the distance that these rows have
            const auto cols = static_cast<size_t>(r.cols(1));
            for (size_t row = 0; row < r.in[3].size(); ++row) {
              double squares = 0;
              for (size_t i = row * cols; i < (row + 1) * cols; ++i)
                squares += (r.in[1][i] - r.in[2][i]) * (r.in[1][i] - r.in[2][i]);
              r.in[3][row] = std::sqrt(squares);
            }
          };
        }
        all.push_back(std::move(c));
      }
  return all;
}

/// Scores of few values, so that many are equal.
void alike(Reference& r) {
  for (double& x : r.in[0]) x = std::floor(x * 8) / 8;
}
void zeros_and_ones(Reference& r) {
  for (double& x : r.in[1]) x = x > 0;
  for (double& x : r.in[0]) x = std::abs(x);
}

std::vector<Case> cosent_cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, int64_t n, int32_t ranks, double scale = 1) -> Case& {
    Case c{name, {{n}, {n}}, {}, {{}}, scale};
    for (int64_t i = 0; i < n; ++i) c.ints[0].push_back(static_cast<int32_t>(i * i % 7 % ranks));
    return all.emplace_back(std::move(c));
  };
  for (const int64_t n : {1, 2, 33, 300}) add(std::to_string(n), n, 5);
  add("one rank", 5, 1);
  add("far scores", 40, 5, 30);
  add("equal scores", 40, 3).adjust = alike;
  return all;
}

std::vector<Case> loss_cases() {
  std::vector<Case> all;
  for (const int64_t n : {1, 33, 300}) {
    all.push_back({fmt::format("{} contrastive", n), {{n}, {n}}});
    all.back().adjust = zeros_and_ones;
    all.push_back({fmt::format("{} triplet", n), {{n}, {n}}, {{"kind", std::string("triplet")}}});
  }
  all.push_back({"a margin of 5", {{40}, {40}}, {{"kind", std::string("triplet")}, {"margin", 5.0}}});
  return all;
}

double pairs(const Reference& r) {
  const auto n = static_cast<double>(r.in[0].size());
  return n * n;
}

std::vector<Type> infer_columns(std::span<const Type> in, const Attrs& attrs, const char* name, bool fewer) {
  const int64_t cols = attrs.i("cols");
  if (in[0].dtype != DType::f32 || in[0].shape.size() != 2 || cols < 1 ||
      (fewer ? cols > in[0].shape[1] : cols < in[0].shape[1]))
    fail(ErrorCode::kShape, "{}: found {} for {} columns, expected f32[n,c] of at {} as many", name,
         to_string(in[0]), cols, fewer ? "least" : "most");
  return {{DType::f32, {in[0].shape[0], cols}}};
}

void ref_columns(Reference& r) {
  const auto from = static_cast<size_t>(r.cols(0)), to = static_cast<size_t>(r.node.attrs.i("cols"));
  for (size_t i = 0; i < r.out[0].size(); ++i)
    r.out[0][i] = i % to < from ? r.in[0][i / to * from + i % to] : 0;
}

std::vector<Case> column_cases(bool fewer) {
  std::vector<Case> all;
  for (const auto& [rows, few, many] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 33}, {300, 16, 48}, {7, 31, 32}})
    all.push_back({fmt::format("{} rows, {} of {}", rows, few, many),
                   {{rows, fewer ? many : few}},
                   {{"cols", fewer ? few : many}}});
  return all;
}

}  // namespace

RowScore row_score(const Attrs& attrs) {
  const std::string& name = attrs.s("kind");
  if (name == "dot") return RowScore::kDot;
  if (name == "euclidean") return RowScore::kEuclidean;
  if (name == "manhattan") return RowScore::kManhattan;
  if (name == "one_minus_dot") return RowScore::kOneMinusDot;
  fail(ErrorCode::kShape,
       "row_scores: found the kind \"{}\", expected dot, euclidean, manhattan or one_minus_dot", name);
}

PairLoss pair_loss_kind(const Attrs& attrs) {
  const std::string& name = attrs.s("kind");
  if (name == "contrastive") return PairLoss::kContrastive;
  if (name == "triplet") return PairLoss::kTriplet;
  fail(ErrorCode::kShape, "pair_loss: found the kind \"{}\", expected contrastive or triplet", name);
}

/// s[i]: how alike, or how far apart, a[i] and b[i] are (RowScore).
const OpDef row_scores{
    .name = "row_scores",
    .signature = "a[n,c]:f32 b[n,c]:f32 -> s[n]:f32",
    .attrs = {{"kind", std::string("dot")}, {"shift", 0.0}},
    .check = [](std::span<const Type>, const Attrs& attrs) { row_score(attrs); },
    .gradient = row_scores_gradient,
    .reference = ref_row_scores,
    .cases = [] { return row_cases(false); },
    .bound = {.ulp = 4, .terms = columns},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 3); },
    .source = "sentence-transformers' pairwise_dot_score, pairwise_euclidean_sim, pairwise_manhattan_sim",
};

const OpDef row_scores_bwd{
    .name = "row_scores_bwd",
    .signature = "ds[n]:f32 a[n,c]:f32 b[n,c]:f32 s[n]:f32 -> da[n,c]:f32 db[n,c]:f32",
    .attrs = {{"kind", std::string("dot")}, {"shift", 0.0}},
    .gradient = not_differentiable,
    .reference = ref_row_scores_bwd,
    .cases = [] { return row_cases(true); },
    .bound = {.ulp = 6},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 3); },
};

/// log(1 + Σ over ranks[i] < ranks[j] of e^(factor · (scores[i] − scores[j]))), and its gradient by the
/// scores for dL/dloss 1.
const OpDef cosent{
    .name = "cosent",
    .signature = "scores[n]:f32 ranks[n]:i32 -> loss[1]:f32 dscores[n]:f32",
    .attrs = {{"factor", 20.0}},
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{by_loss(g, 1), Value{}};
        },
    .auxiliary_outputs = 1,
    .reference = ref_cosent,
    .cases = cosent_cases,
    .bound = {.ulp = 8, .terms = pairs},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 40); },
    .source = "sentence-transformers' CoSENTLoss",
};

/// A loss over scores and labels, or over two scores (PairLoss), and its gradients for dL/dloss 1.
const OpDef pair_loss{
    .name = "pair_loss",
    .signature = "scores[n]:f32 other[n]:f32 -> loss[1]:f32 dscores[n]:f32 dother[n]:f32",
    .attrs = {{"kind", std::string("contrastive")}, {"margin", 0.5}},
    .check = [](std::span<const Type>, const Attrs& attrs) { pair_loss_kind(attrs); },
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{by_loss(g, 1), by_loss(g, 2)};
        },
    .auxiliary_outputs = 2,
    .reference = ref_pair_loss,
    .cases = loss_cases,
    .bound = {.ulp = 8, .terms = columns},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 20); },
    .source = "sentence-transformers' ContrastiveLoss, TripletLoss",
};

/// y = factor · x.
const OpDef times{
    .name = "times",
    .signature = "x[n]:f32 factor[1]:f32 -> y[n]:f32",
    .gradient = not_differentiable,
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = r.in[1][0] * r.in[0][i];
        },
    .cases =
        [] {
          return std::vector<Case>{{"one", {{1}, {1}}}, {"300", {{300}, {1}}}};
        },
    .bound = {.ulp = 2},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 1); },
};

/// The first columns of x.
const OpDef first_columns{
    .name = "first_columns",
    .signature = "x[n,c]:f32 -> y[n,k]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"cols", int64_t{1}}},
    .infer = [](std::span<const Type> in,
                const Attrs& attrs) { return infer_columns(in, attrs, "first_columns", true); },
    .gradient =
        [](const Grad& g) {
          const int64_t cols = g.in(0).type().shape[1];
          return std::vector<Value>{g.program.emit(first_columns_bwd, {g.dout[0]}, {{"cols", cols}})[0]};
        },
    .reference = ref_columns,
    .cases = [] { return column_cases(true); },
    .bound = {.ulp = 0},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 0); },
};

/// The same and columns of zeros after them.
const OpDef first_columns_bwd{
    .name = "first_columns_bwd",
    .signature = "dy[n,k]:f32 -> dx[n,c]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"cols", int64_t{1}}},
    .infer = [](std::span<const Type> in,
                const Attrs& attrs) { return infer_columns(in, attrs, "first_columns_bwd", false); },
    .gradient = not_differentiable,
    .reference = ref_columns,
    .cases = [] { return column_cases(false); },
    .bound = {.ulp = 0},
    .cost = [](const Node& node, const Program& program) { return elementwise_cost(node, program, 0); },
};

}  // namespace lathe::op
