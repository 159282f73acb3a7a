// loss = mean −log softmax(x·Wᵀ + b)[label], in chunks of rows.
#include "lathe/ops/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/float16.h"
#include "lathe/ops/functional.h"

namespace lathe::op {
namespace {

constexpr double kUlp = 4;

/// A sum's longest: over the width, over the classes, or over the rows.
double terms_of(int64_t m, int64_t v, int64_t c) { return static_cast<double>(m + v + c); }

/// As products of that dtype read an f32 number.
double rounded(double x, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(static_cast<float>(x)));
  if (dtype == DType::f16) return to_float(to_f16(static_cast<float>(x)));
  return x;
}

/// The logits of one row after another; x is at input `first`, w, b and labels follow.
class LogitRows {
 public:
  LogitRows(const Reference& r, int first)
      : m(r.dim(first, 0)),
        v(r.dim(first + 1, 0)),
        c(r.cols(first)),
        smoothing(r.node.attrs.f("smoothing")),
        dtype(r.in_types[static_cast<size_t>(first)].dtype),
        logits(static_cast<size_t>(v)),
        magnitudes(logits),
        x_(r.in[static_cast<size_t>(first)]),
        w_(r.in[static_cast<size_t>(first + 1)]),
        b_(r.in[static_cast<size_t>(first + 2)]),
        labels_(r.in[static_cast<size_t>(first + 3)]) {
    for (double& w : w_) w = rounded(w, dtype);
    for (int64_t i = 0; i < m; ++i) count += counts(i);
    count = std::max(count, 1.0);
  }

  int64_t label(int64_t i) const { return static_cast<int64_t>(labels_[static_cast<size_t>(i)]); }
  bool counts(int64_t i) const { return label(i) >= 0 && label(i) < v; }
  double x(int64_t i, int64_t k) const { return x_[static_cast<size_t>(i * c + k)]; }
  double w(int64_t j, int64_t k) const { return w_[static_cast<size_t>(j * c + k)]; }
  double wanted(int64_t i, int64_t j) const {
    return (j == label(i) ? 1 - smoothing : 0) + smoothing / static_cast<double>(v);
  }
  /// Fills logits, and magnitudes: Σ|terms|.
  void read(int64_t i) {
    for (int64_t j = 0; j < v; ++j) {
      double sum = b_.empty() ? 0 : b_[static_cast<size_t>(j)], magnitude = std::abs(sum);
      for (int64_t k = 0; k < c; ++k) {
        sum += x(i, k) * w(j, k);
        magnitude += std::abs(x(i, k) * w(j, k));
      }
      logits[static_cast<size_t>(j)] = sum;
      magnitudes[static_cast<size_t>(j)] = magnitude;
    }
  }

  const int64_t m, v, c;
  const double smoothing;
  const DType dtype;
  double count = 0;
  std::vector<double> logits, magnitudes;

 private:
  const std::vector<double>& x_;
  std::vector<double> w_;
  const std::vector<double>&b_, &labels_;
};

void ref_linear_cross_entropy(Reference& r) {
  LogitRows rows(r, 0);
  for (int64_t i = 0; i < rows.m; ++i) {
    if (!rows.counts(i)) continue;
    rows.read(i);
    const auto most = std::max_element(rows.logits.begin(), rows.logits.end());
    double sum = 0, shift = 0, wanted = 0, magnitude = 0;
    for (const double z : rows.logits) sum += std::exp(z - *most);
    for (size_t j = 0; j < rows.logits.size(); ++j) {
      shift += std::exp(rows.logits[j] - *most) / sum * rows.magnitudes[j];
      wanted += rows.wanted(i, static_cast<int64_t>(j)) * rows.logits[j];
      magnitude += rows.wanted(i, static_cast<int64_t>(j)) * rows.magnitudes[j];
    }
    const double lse = *most + std::log(sum);
    r.out[0][0] += (lse - wanted) / rows.count;
    r.magnitude[0][0] += (1 + std::abs(lse) + shift + magnitude) / rows.count;
    r.out[1][0] += most - rows.logits.begin() == rows.label(i);
    r.out[2][static_cast<size_t>(i)] = lse;
    r.magnitude[2][static_cast<size_t>(i)] = 1 + std::abs(lse) + shift;
  }
}

/// One element of the logits' gradient: how it comes about, and how far off it may be where a product reads
/// it, in units of the op's bound.
struct Slope {
  double value, magnitude;
};

/// Adds a row's d to dx, dw and db of `out`, and the magnitudes to those of `magnitude`.
template <typename F>
void add_row(const LogitRows& rows, int64_t i, std::vector<std::vector<double>>& out,
             std::vector<std::vector<double>>& magnitude, F slope) {
  for (int64_t j = 0; j < rows.v; ++j) {
    const Slope d = slope(j);
    out[2][static_cast<size_t>(j)] += d.value;
    magnitude[2][static_cast<size_t>(j)] += d.magnitude;
    for (int64_t k = 0; k < rows.c; ++k) {
      const size_t at_x = static_cast<size_t>(i * rows.c + k), at_w = static_cast<size_t>(j * rows.c + k);
      out[0][at_x] += d.value * rows.w(j, k);
      magnitude[0][at_x] += d.magnitude * std::abs(rows.w(j, k));
      out[1][at_w] += d.value * rows.x(i, k);
      magnitude[1][at_w] += d.magnitude * std::abs(rows.x(i, k));
    }
  }
}

void ref_linear_cross_entropy_bwd(Reference& r) {
  LogitRows rows(r, 1);
  const double unit = kUlp * 0x1p-24 * std::sqrt(terms_of(rows.m, rows.v, rows.c));
  for (int64_t i = 0; i < rows.m; ++i) {
    if (!rows.counts(i)) continue;
    rows.read(i);
    const double lse = r.in[5][static_cast<size_t>(i)], scale = r.in[0][0] / rows.count;
    add_row(rows, i, r.out, r.magnitude, [&](int64_t j) {
      const size_t at = static_cast<size_t>(j);
      const double p = std::exp(rows.logits[at] - lse), wanted = rows.wanted(i, j), d = scale * (p - wanted);
      // of a logit, the exponential and the difference; then its rounding to the dtype of the products
      const double arithmetic =
          std::abs(scale) * (p * (1 + rows.magnitudes[at] + std::abs(lse)) + wanted + p);
      return Slope{d, std::abs(d) + arithmetic + storing_error(rows.dtype, d) / unit};
    });
  }
}

/// Only lse can be off.
Errors moved_by_lse(const Reference& r, const Errors& in) {
  LogitRows rows(r, 1);
  Errors moved(r.out.size());
  for (size_t o = 0; o < moved.size(); ++o) moved[o].resize(r.out[o].size(), 0);
  Errors unused = moved;
  for (int64_t i = 0; i < rows.m; ++i) {
    if (!rows.counts(i)) continue;
    rows.read(i);
    const size_t row = static_cast<size_t>(i);
    add_row(rows, i, unused, moved, [&](int64_t j) {
      const double p = std::exp(rows.logits[static_cast<size_t>(j)] - r.in[5][row]);
      return Slope{0, std::abs(r.in[0][0]) / rows.count * p * in[5][row]};
    });
  }
  return moved;
}

/// Rows, classes, width, and the labels.
struct Sizes {
  const char* name;
  int64_t m, v, c;
  std::vector<int32_t> labels;
};
/// Every seventh row is ignored.
std::vector<int32_t> many_labels(int32_t m, int32_t v) {
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < m; ++i) labels.push_back(i % 7 == 3 ? -100 : 31 * i % v);
  return labels;
}
const std::vector<Sizes> kSizes = {{"one", 1, 2, 1, {1}},
                                   {"two classes", 5, 2, 33, {0, 1, 1, -100, 0}},
                                   {"some ignored", 4, 3, 8, {-100, 2, 3, 0}},
                                   {"all ignored", 2, 3, 8, {-100, -100}},
                                   {"chunks", 150, 517, 8, many_labels(150, 517)},
                                   {"odd width", 3, 40, 31, {39, 0, 20}},
                                   {"large vocabulary", 4, 30522, 8, {30521, 0, -100, 1024}},
                                   {"largest vocabulary", 3, 119547, 2, {119546, -100, 65536}}};

/// Every other row turns to the weight of its label, so that some rows are right and far from a tie.
template <int kFirst>
void some_right(Reference& r) {
  const size_t x = kFirst, w = kFirst + 1, labels = kFirst + 3;
  const size_t c = static_cast<size_t>(r.cols(kFirst)), v = r.in[w].size() / c;
  for (size_t i = 0; i < r.in[labels].size(); i += 2) {
    const double label = r.in[labels][i];
    if (label < 0 || label >= static_cast<double>(v)) continue;
    for (size_t k = 0; k < c; ++k) {
      double& of_label = r.in[w][static_cast<size_t>(label) * c + k];
      of_label = of_label < 0 ? -1 : 1;
      r.in[x][i * c + k] = 2 * of_label;
    }
  }
}

std::vector<Case> forward_cases() {
  std::vector<Case> all;
  const auto add = [&](const Sizes& s, std::string name, const Attrs& attrs, bool bias) {
    all.push_back({std::move(name),
                   {{s.m, s.c}, {s.v, s.c}, {bias ? s.v : -1}, {s.m}},
                   attrs,
                   {s.labels},
                   1,
                   some_right<0>});
  };
  for (const Sizes& s : kSizes) add(s, s.name, {}, true);
  add(kSizes[4], "no bias", {}, false);
  add(kSizes[4], "smoothed", {{"smoothing", 0.1}}, true);
  add(kSizes[2], "smoothed, some ignored", {{"smoothing", 0.5}}, true);
  return all;
}

std::vector<Case> backward_cases() {
  std::vector<Case> all = forward_cases();
  for (Case& c : all) {
    const Shape rows = c.in[3];
    c.in.insert(c.in.begin(), Shape{1});
    c.in.push_back(rows);
    c.adjust = [](Reference& r) {
      some_right<1>(r);
      LogitRows logits(r, 1);
      for (int64_t i = 0; i < logits.m; ++i) {
        logits.read(i);
        double sum = 0;
        for (const double z : logits.logits) sum += std::exp(z);
        r.in[5][static_cast<size_t>(i)] = std::log(sum);
      }
    };
  }
  return all;
}

Cost cost_of(const Node& node, const Program& program, size_t first, double products) {
  const Shape &x = program.type(node.in[first]).shape, &w = program.type(node.in[first + 1]).shape;
  Cost cost = elementwise_cost(node, program, 0);
  const double scores = static_cast<double>(x[0]) * static_cast<double>(w[0]);
  cost.flops = scores * (products * 2 * static_cast<double>(x[1]) + 10);
  return cost;
}

double terms_of_forward(const Reference& r) { return terms_of(r.dim(0, 0), r.dim(1, 0), r.cols(0)); }
double terms_of_backward(const Reference& r) { return terms_of(r.dim(1, 0), r.dim(2, 0), r.cols(1)); }

/// Who runs a single node of a program without outputs (Backend::run_node) reads all that it computes.
bool has_reader(const Program& program, int value) {
  if (program.outputs().empty()) return true;
  for (const auto& [name, id] : program.outputs())
    if (id == value) return true;
  for (const Node& node : program.nodes())
    if (std::find(node.in.begin(), node.in.end(), value) != node.in.end()) return true;
  return false;
}

}  // namespace

void check_classes(const Type& w) {
  if (w.shape[0] == 0)
    fail(ErrorCode::kShape, "linear_cross_entropy: w is {}, expected at least one class", to_string(w));
}

int64_t rows_of_a_chunk(int64_t m, int64_t v, int64_t c) {
  constexpr int64_t kMostScores = int64_t{1} << 26, kGradients = 8, kEnough = 128, kTile = 16;
  const int64_t all = std::max<int64_t>(m, 1),
                most = std::min(kGradients * c, std::max(kMostScores / v, kEnough));
  return std::min({all, most, round_up(ceil_div(all, ceil_div(all, most)), kTile)});
}

LinearCrossEntropy::LinearCrossEntropy(const Node& node, const Program& program) {
  // By name: a module that is loaded has ops of its own.
  const std::string_view name = node.op->name;
  const bool forward = name == linear_cross_entropy.name, backward = name == linear_cross_entropy_bwd.name;
  x = backward ? 1 : 0;
  dloss = forward ? -1 : backward ? 0 : 4;
  lse_in = backward ? 5 : -1;
  loss = backward ? -1 : 0;
  lse_out = forward ? 2 : -1;
  dx = forward ? -1 : backward ? 0 : 2;
  const Type& x_type = program.type(node.in[static_cast<size_t>(x)]);
  const Type& weight = program.type(node.in[static_cast<size_t>(x + 1)]);
  m = x_type.shape[0], c = x_type.shape[1], v = weight.shape[0];
  type = x_type.dtype, w_type = weight.dtype;
  chunk = rows_of_a_chunk(m, v, c);
  smoothing = node.attrs.f("smoothing");
  const auto is_wanted = [&](int after) {
    return dx >= 0 && has_reader(program, node.out[static_cast<size_t>(dx + after)]);
  };
  wants_dx = is_wanted(0), wants_dw = is_wanted(1), wants_db = is_wanted(2);
}

/// cross_entropy of linear(x, w, b), the logits in f32 and not rounded; correct: the number of counted rows
/// whose label is the first of the largest logits; lse: of every counted row the log of Σ exp(logits), else
/// 0.
const OpDef linear_cross_entropy{
    .name = "linear_cross_entropy",
    .signature = "x[m,c] w[v,c]:f32|x b[v]:f32? labels[m]:i32 -> loss[1]:f32 correct[1]:i32 lse[m]:f32",
    .attrs = {{"smoothing", 0.0}},
    .check = [](std::span<const Type> in, const Attrs&) { check_classes(in[1]); },
    .gradient =
        [](const Grad& g) {
          const auto d =
              g.program.emit(linear_cross_entropy_bwd,
                             {g.dout[0], g.in(0), g.in(1), g.in(2), g.in(3), g.out(2)}, g.node.attrs);
          const Value dw = cast(d[1], g.in(1).type().dtype);
          return std::vector<Value>{d[0], dw, g.in(2) ? d[2] : Value{}, Value{}};
        },
    .auxiliary_outputs = 2,
    .reference = ref_linear_cross_entropy,
    .cases = forward_cases,
    .bound = {.ulp = kUlp, .terms = terms_of_forward},
    .cost = [](const Node& node, const Program& program) { return cost_of(node, program, 0, 1); },
    .source = "torch.nn.functional.linear and CrossEntropyLoss; chunks as in Hsu et al. 2024, Liger Kernel",
};

/// d = dloss · (softmax − smoothed one-hot) / count, rounded to the dtype of x for the products dx = d · w
/// and dw = dᵀ · x; db = Σ d.  dw and db are summed over the chunks in order.
const OpDef linear_cross_entropy_bwd{
    .name = "linear_cross_entropy_bwd",
    .signature =
        "dloss[1]:f32 x[m,c] w[v,c]:f32|x b[v]:f32? labels[m]:i32 lse[m]:f32 -> dx[m,c]:x dw[v,c]:f32 "
        "db[v]:f32",
    .attrs = {{"smoothing", 0.0}},
    .check = [](std::span<const Type> in, const Attrs&) { check_classes(in[2]); },
    .gradient = not_differentiable,
    .reference = ref_linear_cross_entropy_bwd,
    .cases = backward_cases,
    .bound = {.ulp = kUlp, .terms = terms_of_backward},
    .cost = [](const Node& node, const Program& program) { return cost_of(node, program, 1, 3); },
    .moved = moved_by_lse,
};

}  // namespace lathe::op
