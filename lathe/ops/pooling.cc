// What makes one vector of the vectors of a text's tokens: weighted sums, maxima, unit length.
#include "lathe/ops/pooling.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

/// f(row, token) for every token that counts of every row of a packed batch.
template <typename F>
void for_counted(const std::vector<double>& first, const std::vector<double>& cu, F f) {
  for (size_t b = 0; b + 1 < cu.size(); ++b)
    for (auto n = static_cast<size_t>(first[b]); n < static_cast<size_t>(cu[b + 1]); ++n) f(b, n);
}

/// The weight of a token, in double.
double weight(const Reference& r, size_t b, size_t n) {
  const double begin = r.in[2][b], first = r.in[1][b], end = r.in[2][b + 1], count = end - first;
  switch (segment_weights(r.node.attrs)) {
    case SegmentWeights::kMean:
      return 1 / count;
    case SegmentWeights::kSqrt:
      return 1 / std::sqrt(count);
    default:
      return (static_cast<double>(n) - begin + 1) / (count * (first + end - 2 * begin + 1) / 2);
  }
}

void ref_segment_sum(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  for_counted(r.in[1], r.in[2], [&](size_t b, size_t n) {
    for (size_t c = 0; c < cols; ++c) {
      const double term = weight(r, b, n) * r.in[0][n * cols + c];
      r.out[0][b * cols + c] += term;
      r.magnitude[0][b * cols + c] += std::abs(term);
    }
  });
}

void ref_segment_sum_bwd(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  for_counted(r.in[1], r.in[2], [&](size_t b, size_t n) {
    for (size_t c = 0; c < cols; ++c) r.out[0][n * cols + c] = weight(r, b, n) * r.in[0][b * cols + c];
  });
}

void ref_segment_max(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  std::fill(r.out[1].begin(), r.out[1].end(), -1.0);
  for_counted(r.in[1], r.in[2], [&](size_t b, size_t n) {
    for (size_t c = 0; c < cols; ++c) {
      const double x = r.in[0][n * cols + c];
      double &y = r.out[0][b * cols + c], &at = r.out[1][b * cols + c];
      if (at < 0 || x > y || (std::isnan(x) && !std::isnan(y))) y = x, at = static_cast<double>(n);
    }
  });
}

void ref_segment_max_bwd(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  for (size_t i = 0; i < r.in[0].size(); ++i)
    if (r.in[1][i] >= 0) r.out[0][static_cast<size_t>(r.in[1][i]) * cols + i % cols] = r.in[0][i];
}

void ref_l2_normalize(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  for (size_t row = 0; row < r.out[1].size(); ++row) {
    double squares = 0;
    for (size_t c = 0; c < cols; ++c) squares += r.in[0][row * cols + c] * r.in[0][row * cols + c];
    r.out[1][row] = std::sqrt(squares);
    for (size_t c = 0; c < cols; ++c)
      r.out[0][row * cols + c] = r.in[0][row * cols + c] / std::max(r.out[1][row], r.node.attrs.f("eps"));
  }
}

/// dx = (dy − y ⟨y, dy⟩) / ‖x‖; where the length is not above eps, it is a constant: dx = dy / eps.
void ref_l2_normalize_bwd(Reference& r) {
  const auto cols = static_cast<size_t>(r.cols(0));
  const double eps = r.node.attrs.f("eps");
  for (size_t row = 0; row < r.in[2].size(); ++row) {
    const double norm = r.in[2][row];
    const double *dy = &r.in[0][row * cols], *y = &r.in[1][row * cols];
    double along = 0, absolute = 0;
    for (size_t c = 0; c < cols && norm > eps; ++c) along += dy[c] * y[c], absolute += std::abs(dy[c] * y[c]);
    for (size_t c = 0; c < cols; ++c) {
      r.out[0][row * cols + c] = (dy[c] - y[c] * along) / std::max(norm, eps);
      r.magnitude[0][row * cols + c] = (std::abs(dy[c]) + std::abs(y[c]) * absolute) / std::max(norm, eps);
    }
  }
}

double longest_row(const Reference& r) {
  double tokens = 1;
  const std::vector<double>& cu = r.in[2];
  for (size_t b = 0; b + 1 < cu.size(); ++b) tokens = std::max(tokens, cu[b + 1] - cu[b]);
  return tokens;
}
double columns(const Reference& r) { return static_cast<double>(r.cols(0)); }

std::vector<Value> segment_sum_gradient(const Grad& g) {
  return {g.program.emit(segment_sum_bwd, {g.dout[0], g.in(1), g.in(2)},
                         {{"weights", g.node.attrs.s("weights")}, {"tokens", g.in(0).type().shape[0]}})[0],
          Value{}, Value{}};
}
std::vector<Value> segment_max_gradient(const Grad& g) {
  return {g.program.emit(segment_max_bwd, {g.dout[0], g.out(1), g.in(2)},
                         {{"tokens", g.in(0).type().shape[0]}})[0],
          Value{}, Value{}};
}
std::vector<Value> l2_normalize_gradient(const Grad& g) {
  return g.program.emit(l2_normalize_bwd, {g.dout[0], g.out(0), g.out(1)}, {{"eps", g.node.attrs.f("eps")}});
}

Cost cost_of_rows(const Node& node, const Program& program) { return elementwise_cost(node, program, 2); }

/// Bounds of rows and the first token of each that counts: an empty row, one token, a row of which none
/// counts, tokens that belong to no row.
struct Bounds {
  std::vector<int32_t> first, cu;
};
const std::vector<Bounds> kRowBounds = {{{0}, {0, 1}},
                                        {{1, 3, 4}, {0, 3, 4, 9}},
                                        {{0, 2, 2}, {0, 2, 2, 6}},
                                        {{0, 7}, {0, 4, 7}},
                                        {{0, 133, 299}, {0, 130, 255, 300}}};

/// f(case, bounds, rows, tokens) makes a case of each of these.
template <typename F>
std::vector<Case> pooling_cases(F f) {
  std::vector<Case> all;
  for (const Bounds& bounds : kRowBounds)
    for (const int64_t cols : {1, 33, 96, 300}) {
      const int64_t rows = std::ssize(bounds.first), tokens = bounds.cu.back() + 2;
      Case c{fmt::format("{} rows, {} columns, {} tokens", rows, cols, bounds.cu.back())};
      c.in = {{tokens, cols}, {rows}, {rows + 1}};
      c.ints = {bounds.first, bounds.cu};
      f(c, bounds, rows, tokens);
      all.push_back(c);
    }
  return all;
}

std::vector<Case> sum_cases(bool backward) {
  std::vector<Case> all;
  for (const char* weights : {"mean", "sqrt", "place"})
    for (Case& c : pooling_cases([&](Case&one, const Bounds&, int64_t rows, int64_t tokens) {
           one.name += fmt::format(", {}", weights);
           one.attrs = {{"weights", std::string(weights)}};
           if (!backward) return;
           one.in[0][0] = rows;
           one.attrs = {{"weights", std::string(weights)}, {"tokens", tokens}};
         }))
      all.push_back(std::move(c));
  return all;
}

std::vector<Case> max_cases() {
  return pooling_cases([](Case&, const Bounds&, int64_t, int64_t) {});
}

std::vector<Case> max_bwd_cases() {
  return pooling_cases([](Case& c, const Bounds& bounds, int64_t rows, int64_t tokens) {
    const int64_t cols = c.in[0][1];
    c.in = {{rows, cols}, {rows, cols}, {rows + 1}};
    c.attrs = {{"tokens", tokens}};
    std::vector<int32_t> at;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto b = static_cast<size_t>(i / cols);
      const int32_t first = bounds.first[b], count = bounds.cu[b + 1] - first;
      at.push_back(count == 0 ? -1 : first + static_cast<int32_t>(7 * i % count));
    }
    c.ints = {at, bounds.cu};
  });
}

std::vector<Case> l2_cases(bool backward) {
  std::vector<Case> all;
  const auto make = [&](const std::string& name, int64_t rows, int64_t cols) {
    Case c{name, {{rows, cols}}};
    if (backward) {
      c.in = {{rows, cols}, {rows, cols}, {rows}};
      c.adjust = [](Reference& r) {
        for (double& norm : r.in[2]) norm = 0.5 + std::abs(norm);
      };
    }
    return c;
  };
  for (const int64_t cols : {1, 2, 31, 384, 1100})
    all.push_back(make(fmt::format("{} columns", cols), 3, cols));
  all.push_back(make("many rows", 300, 48));
  all.push_back(make("length below eps", 3, 40));
  all.back().attrs = {{"eps", 1e3}};
  if (!backward) all.push_back({"zeros", {{2, 24}}, {}, {}, 0});
  return all;
}

}  // namespace

SegmentWeights segment_weights(const Attrs& attrs) {
  const std::string& name = attrs.s("weights");
  if (name == "mean") return SegmentWeights::kMean;
  if (name == "sqrt") return SegmentWeights::kSqrt;
  if (name == "place") return SegmentWeights::kPlace;
  fail(ErrorCode::kShape, "segment_sum: found the weights \"{}\", expected mean, sqrt or place", name);
}

/// y[b] = Σ of weight(n) · x[n] over first[b] ≤ n < cu[b+1] (segment_weights.h); 0 where there is none.
/// cu: ascending; cu[b] ≤ first[b] ≤ cu[b+1].
const OpDef segment_sum{
    .name = "segment_sum",
    .signature = "x[N,c] first[B]:i32 cu[B+1]:i32 -> y[B,c]:x",
    .attrs = {{"weights", std::string("mean")}},
    .check = [](std::span<const Type>, const Attrs& attrs) { segment_weights(attrs); },
    .gradient = segment_sum_gradient,
    .reference = ref_segment_sum,
    .cases = [] { return sum_cases(false); },
    .bound = {.ulp = 6, .terms = longest_row},
    .cost = cost_of_rows,
    .source = "sentence-transformers' Pooling",
};

/// dx of tokens that do not count or belong to no row: 0.
const OpDef segment_sum_bwd{
    .name = "segment_sum_bwd",
    .signature = "dy[B,c] first[B]:i32 cu[B+1]:i32 -> dx[@tokens,c]:dy",
    .attrs = {{"weights", std::string("mean")}, {"tokens", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = ref_segment_sum_bwd,
    .cases = [] { return sum_cases(true); },
    .bound = {.ulp = 6},
    .cost = cost_of_rows,
};

/// y[b]: by column the greatest x[n] over first[b] ≤ n < cu[b+1], and at: the first n that has it; 0 and −1
/// where there is none.  NaN is greatest.
const OpDef segment_max{
    .name = "segment_max",
    .signature = "x[N,c] first[B]:i32 cu[B+1]:i32 -> y[B,c]:x at[B,c]:i32",
    .gradient = segment_max_gradient,
    .auxiliary_outputs = 1,
    .reference = ref_segment_max,
    .cases = max_cases,
    .bound = {.ulp = 0},
    .cost = cost_of_rows,
    .source = "sentence-transformers' Pooling; torch.max",
};

/// dx[at[b]] = dy[b] by column, else 0.
const OpDef segment_max_bwd{
    .name = "segment_max_bwd",
    .signature = "dy[B,c] at[B,c]:i32 cu[B+1]:i32 -> dx[@tokens,c]:dy",
    .attrs = {{"tokens", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = ref_segment_max_bwd,
    .cases = max_bwd_cases,
    .bound = {.ulp = 0},
    .cost = cost_of_rows,
};

/// y = x / max(norm, eps), norm: the Euclidean length of each row.
const OpDef l2_normalize{
    .name = "l2_normalize",
    .signature = "x[..,n] -> y[..,n]:x norm[..]:f32",
    .attrs = {{"eps", 1e-12}},
    .gradient = l2_normalize_gradient,
    .auxiliary_outputs = 1,
    .reference = ref_l2_normalize,
    .cases = [] { return l2_cases(false); },
    .bound = {.ulp = 4, .terms = columns},
    .cost = cost_of_rows,
    .source = "torch.nn.functional.normalize",
};

const OpDef l2_normalize_bwd{
    .name = "l2_normalize_bwd",
    .signature = "dy[..,n] y[..,n]:dy norm[..]:f32 -> dx[..,n]:dy",
    .attrs = {{"eps", 1e-12}},
    .gradient = not_differentiable,
    .reference = ref_l2_normalize_bwd,
    .cases = [] { return l2_cases(true); },
    .bound = {.ulp = 4, .terms = columns},
    .cost = cost_of_rows,
};

}  // namespace lathe::op
