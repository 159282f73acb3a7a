// Losses: cross entropy over classes and over the tokens of a row, squared error, binary cross entropy.
#include "lathe/ops/losses.h"

#include <cmath>

#include "lathe/ops/elementwise.h"
#include "lathe/ops/reduce.h"

namespace lathe::op {
namespace {

/// log Σ exp over `n` numbers that lie `stride` apart.
double log_sum_exp(const double* x, int64_t n, int64_t stride) {
  double largest = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, x[i * stride]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - largest);
  return largest + std::log(sum);
}

/// A row of scores among which one is right.  Rows whose target lies outside are ignored.
struct Choice {
  int64_t begin, length, stride, target;
  double smoothing = 0;  ///< share of the target that is spread evenly over the row
  bool counts() const { return target >= 0 && target < length; }
  double wanted(int64_t i) const {
    return (i == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(length);
  }
};

std::vector<Choice> class_rows(const Reference& r, int logits, int labels) {
  std::vector<Choice> rows;
  const int64_t k = r.cols(logits);
  for (size_t i = 0; i < r.in[static_cast<size_t>(labels)].size(); ++i)
    rows.push_back({static_cast<int64_t>(i) * k, k, 1,
                    static_cast<int64_t>(r.in[static_cast<size_t>(labels)][i]), r.node.attrs.f("smoothing")});
  return rows;
}

std::vector<Choice> token_rows(const Reference& r, int logits, int cu, int targets) {
  std::vector<Choice> rows;
  const int64_t k = r.cols(logits), column = r.node.attrs.i("column");
  for (size_t i = 0; i < r.in[static_cast<size_t>(targets)].size(); ++i) {
    const int64_t begin = static_cast<int64_t>(r.in[static_cast<size_t>(cu)][i]);
    const int64_t end = static_cast<int64_t>(r.in[static_cast<size_t>(cu)][i + 1]);
    rows.push_back(
        {begin * k + column, end - begin, k, static_cast<int64_t>(r.in[static_cast<size_t>(targets)][i])});
  }
  return rows;
}

double count(const std::vector<Choice>& rows) {
  double n = 0;
  for (const Choice& row : rows) n += row.counts();
  return std::max(n, 1.0);
}

void choice_loss(Reference& r, const std::vector<double>& logits, const std::vector<Choice>& rows) {
  for (const Choice& row : rows) {
    if (!row.counts()) continue;
    const double* x = &logits[static_cast<size_t>(row.begin)];
    const double lse = log_sum_exp(x, row.length, row.stride);
    double wanted = 0, magnitude = 0;
    for (int64_t i = 0; i < row.length; ++i) {
      if (row.wanted(i) == 0) continue;  // a score of −∞ that is not wanted costs nothing
      wanted += row.wanted(i) * x[i * row.stride];
      magnitude += row.wanted(i) * std::abs(x[i * row.stride]);
    }
    r.out[0][0] += (lse - wanted) / count(rows);
    r.magnitude[0][0] += (1 + std::abs(lse) + magnitude) / count(rows);
  }
}

void choice_gradient(Reference& r, const std::vector<double>& logits, const std::vector<Choice>& rows) {
  const double dloss = r.in[0][0];
  for (const Choice& row : rows) {
    if (!row.counts()) continue;
    const double* x = &logits[static_cast<size_t>(row.begin)];
    const double lse = log_sum_exp(x, row.length, row.stride);
    for (int64_t i = 0; i < row.length; ++i) {
      const double p = std::exp(x[i * row.stride] - lse);
      const size_t at = static_cast<size_t>(row.begin + i * row.stride);
      r.out[0][at] = dloss * (p - row.wanted(i)) / count(rows);
      r.magnitude[0][at] = std::abs(dloss) * (p * (1 + std::abs(lse)) + row.wanted(i)) / count(rows);
    }
  }
}

struct Labels {
  const char* name;
  int64_t rows, classes;
  std::vector<int32_t> labels;
};
const std::vector<Labels> kLabels = {
    {"one", 1, 2, {1}},
    {"six classes", 5, 6, {0, 5, 3, 3, 1}},
    {"some ignored", 4, 3, {-100, 2, -100, 0}},
    {"all ignored", 2, 3, {-100, -100}},
    {"vocabulary", 3, 517, {516, 0, 100}},
    {"large vocabulary", 5, 3071, {3070, 0, -100, 1024, 2000}},
    {"larger, 9 rows", 9, 119547, {119546, 0, 7, -100, 65536, 65535, 1, 2, 90000}}};
std::vector<Case> class_cases(bool backward) {
  std::vector<Case> all;
  const auto add = [&](const Labels& l, const char* name, const Attrs& attrs) {
    Case c{name, {{l.rows, l.classes}, {l.rows}}, attrs, {l.labels}, 4};
    if (backward) c.in.insert(c.in.begin(), Shape{1});
    all.push_back(c);
  };
  for (const Labels& l : kLabels) add(l, l.name, {});
  add(kLabels[1], "smoothed", {{"smoothing", 0.1}});
  add(kLabels[2], "smoothed, some ignored", {{"smoothing", 0.5}});
  add(kLabels[5], "smoothed, large vocabulary", {{"smoothing", 0.1}});
  return all;
}
std::vector<Case> token_cases(bool backward) {
  std::vector<Case> all = {
      {"one", {{1, 2}, {2}, {1}}, {{"column", int64_t{1}}}, {{0, 1}, {0}}, 4},
      {"ragged", {{13, 2}, {4}, {3}}, {{"column", int64_t{0}}}, {{0, 4, 5, 11}, {3, 0, 2}}, 4},
      {"out of range", {{13, 2}, {4}, {3}}, {{"column", int64_t{1}}}, {{0, 4, 5, 13}, {4, -1, 7}}, 4}};
  if (backward)
    for (Case& c : all) c.in.insert(c.in.begin(), Shape{1});
  return all;
}
std::vector<Case> pair_cases(bool backward) {
  std::vector<Case> all = {{"one", {{1}, {1}}}, {"matrix", {{7, 5}, {7, 5}}, {}, {}, 5}};
  if (backward)
    for (Case& c : all) c.in.insert(c.in.begin(), Shape{1});
  return all;
}

double logits_size(const Reference& r) { return static_cast<double>(r.in[0].size()); }
Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 20); }

double log1p_exp(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

/// Mean over the rows whose label lies in [0, K) of (1 − ε) · −log softmax(logits)[label] + ε times the mean
/// of −log softmax(logits) over all classes, ε being `smoothing`; 0 if there is no such row.
const OpDef cross_entropy{
    .name = "cross_entropy",
    .signature = "logits[B,K]:f32 labels[B]:i32 -> loss[1]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"smoothing", 0.0}},
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{
              g.program.emit(cross_entropy_bwd, {g.dout[0], g.in(0), g.in(1)}, g.node.attrs)[0], Value{}};
        },
    .reference = [](Reference& r) { choice_loss(r, r.in[0], class_rows(r, 0, 1)); },
    .cases = [] { return class_cases(false); },
    .bound = {.ulp = 4, .terms = logits_size},
    .cost = cost,
    .source = "torch.nn.CrossEntropyLoss with ignore_index; transformers' LabelSmoother",
};

const OpDef cross_entropy_bwd{
    .name = "cross_entropy_bwd",
    .signature = "dloss[1]:f32 logits[B,K]:f32 labels[B]:i32 -> dlogits[B,K]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"smoothing", 0.0}},
    .gradient = not_differentiable,
    .reference = [](Reference& r) { choice_gradient(r, r.in[1], class_rows(r, 1, 2)); },
    .cases = [] { return class_cases(true); },
    .bound = {.ulp = 8},
    .cost = cost,
};

/// Cross entropy whose classes are the tokens of a row: column `column` of logits, rows as in attention.
const OpDef segment_cross_entropy{
    .name = "segment_cross_entropy",
    .signature = "logits[N,K]:f32 cu[B+1]:i32 targets[B]:i32 -> loss[1]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"column", int64_t{0}}},
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{g.program.emit(segment_cross_entropy_bwd,
                                                   {g.dout[0], g.in(0), g.in(1), g.in(2)}, g.node.attrs)[0],
                                    Value{}, Value{}};
        },
    .reference = [](Reference& r) { choice_loss(r, r.in[0], token_rows(r, 0, 1, 2)); },
    .cases = [] { return token_cases(false); },
    .bound = {.ulp = 4, .terms = logits_size},
    .cost = cost,
    .source = "HF BertForQuestionAnswering, over a row's own tokens",
};

const OpDef segment_cross_entropy_bwd{
    .name = "segment_cross_entropy_bwd",
    .signature = "dloss[1]:f32 logits[N,K]:f32 cu[B+1]:i32 targets[B]:i32 -> dlogits[N,K]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"column", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = [](Reference& r) { choice_gradient(r, r.in[1], token_rows(r, 1, 2, 3)); },
    .cases = [] { return token_cases(true); },
    .bound = {.ulp = 8},
    .cost = cost,
};

const OpDef mse{
    .name = "mse",
    .signature = "x[..]:f32 target[..]:f32 -> loss[1]:f32",
    .dtypes = {DType::f32},
    .gradient =
        [](const Grad& g) {
          return std::vector<Value>{g.program.emit(mse_bwd, {g.dout[0], g.in(0), g.in(1)})[0],
                                    g.program.emit(mse_bwd, {g.dout[0], g.in(1), g.in(0)})[0]};
        },
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.in[0].size(); ++i) {
            const double d = r.in[0][i] - r.in[1][i], n = static_cast<double>(r.in[0].size());
            r.out[0][0] += d * d / n;
          }
          r.magnitude[0][0] = r.out[0][0];
        },
    .cases = [] { return pair_cases(false); },
    .bound = {.ulp = 4, .terms = logits_size},
    .cost = cost,
    .source = "torch.nn.MSELoss",
};

const OpDef mse_bwd{
    .name = "mse_bwd",
    .signature = "dloss[1]:f32 x[..]:f32 target[..]:f32 -> dx[..]:f32",
    .dtypes = {DType::f32},
    .gradient = not_differentiable,
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.in[1].size(); ++i)
            r.out[0][i] = r.in[0][0] * 2 * (r.in[1][i] - r.in[2][i]) / static_cast<double>(r.in[1].size());
        },
    .cases = [] { return pair_cases(true); },
    .bound = {.ulp = 4},
    .cost = cost,
};

const OpDef bce_with_logits{
    .name = "bce_with_logits",
    .signature = "x[..]:f32 target[..]:f32 -> loss[1]:f32",
    .dtypes = {DType::f32},
    .gradient =
        [](const Grad& g) {
          const Value of_each = g.program.emit(mean_bwd, {g.dout[0], g.in(0)})[0];
          const Value x = g.program.emit(scale, {g.in(0)}, {{"factor", -1.0}})[0];
          return std::vector<Value>{g.program.emit(bce_with_logits_bwd, {g.dout[0], g.in(0), g.in(1)})[0],
                                    g.program.emit(mul, {of_each, x})[0]};
        },
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.in[0].size(); ++i) {
            const double x = r.in[0][i], y = r.in[1][i], n = static_cast<double>(r.in[0].size());
            r.out[0][0] += (log1p_exp(x) - x * y) / n;
            r.magnitude[0][0] += (log1p_exp(x) + std::abs(x * y)) / n;
          }
        },
    .cases = [] { return pair_cases(false); },
    .bound = {.ulp = 4, .terms = logits_size},
    .cost = cost,
    .source = "torch.nn.BCEWithLogitsLoss",
};

const OpDef bce_with_logits_bwd{
    .name = "bce_with_logits_bwd",
    .signature = "dloss[1]:f32 x[..]:f32 target[..]:f32 -> dx[..]:f32",
    .dtypes = {DType::f32},
    .gradient = not_differentiable,
    .reference =
        [](Reference& r) {
          for (size_t i = 0; i < r.in[1].size(); ++i) {
            const double sigmoid = 1 / (1 + std::exp(-r.in[1][i])), n = static_cast<double>(r.in[1].size());
            r.out[0][i] = r.in[0][0] * (sigmoid - r.in[2][i]) / n;
            r.magnitude[0][i] = std::abs(r.in[0][0]) * (sigmoid + std::abs(r.in[2][i])) / n;
          }
        },
    .cases = [] { return pair_cases(true); },
    .bound = {.ulp = 8},
    .cost = cost,
};

}  // namespace lathe::op
