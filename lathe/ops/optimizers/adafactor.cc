// Adafactor over flat arenas: second moments of matrices as a row of row means and one of column means.
#include "lathe/ops/optimizers/adafactor.h"

#include <cmath>
#include <numeric>

#include "lathe/ops/optimizers/optimizer.h"

namespace lathe::op {
namespace {

constexpr double kTiny = 1e-30;  // added to every squared gradient

/// One tensor of the arena, and what is kept of it.
struct Part {
  const double *p, *g, *kept;
  double *p2, *kept2, *p_magnitude, *kept_magnitude;
  int64_t rows, cols;  ///< rows 0: a vector
};

struct Step {
  double factor, rate, take, clip_threshold, weight_decay;
};

double mean(const double* x, int64_t n) { return std::accumulate(x, x + n, 0.0) / static_cast<double>(n); }

/// g over the root of the second moment that is kept.
std::vector<double> direction(const Part& t, const Step& s) {
  const bool matrix = t.rows > 0;
  const int64_t rows = std::max<int64_t>(t.rows, 1), cols = t.cols;
  std::vector<double> square(static_cast<size_t>(rows * cols)), u = square;
  for (size_t i = 0; i < square.size(); ++i) square[i] = std::pow(t.g[i] * s.factor, 2) + kTiny;
  const auto keep = [&](int64_t k, double now) {
    t.kept_magnitude[k] = t.kept2[k] = (1 - s.take) * t.kept[k] + s.take * now;
  };
  if (!matrix)
    for (int64_t i = 0; i < cols; ++i) keep(i, square[static_cast<size_t>(i)]);
  for (int64_t row = 0; matrix && row < rows; ++row)
    keep(row, mean(&square[static_cast<size_t>(row * cols)], cols));
  for (int64_t col = 0; matrix && col < cols; ++col) {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += square[static_cast<size_t>(row * cols + col)];
    keep(rows + col, sum / static_cast<double>(rows));
  }
  const double row_mean = matrix ? mean(t.kept2, rows) : 1;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const double v = matrix ? t.kept2[i / cols] / row_mean * t.kept2[rows + i % cols] : t.kept2[i];
    u[static_cast<size_t>(i)] = t.g[i] * s.factor / std::sqrt(v);
  }
  return u;
}

void update(const Part& t, const Step& s) {
  const std::vector<double> u = direction(t, s);
  double squares = 0;
  for (double x : u) squares += x * x;
  const double rms = std::sqrt(squares / static_cast<double>(u.size()));
  const double by = s.rate / std::max(1.0, rms / s.clip_threshold);
  for (size_t i = 0; i < u.size(); ++i) {
    t.p2[i] = t.p[i] * (1 - s.weight_decay * s.rate) - by * u[i];
    t.p_magnitude[i] = std::abs(t.p[i]) + by * std::abs(u[i]);
  }
}

void ref_adafactor(Reference& r) {
  const double* hyper = r.in[5].data();
  const double norm = r.in[3][0];
  r.out[0] = r.magnitude[0] = r.in[0];
  r.out[1] = r.magnitude[1] = r.in[2];
  if (!std::isfinite(norm) || !std::isfinite(r.in[4][0])) return;
  Step s{gradient_factor(hyper, norm), hyper[static_cast<int>(Hyper::kLearningRate)],
         hyper[static_cast<int>(Hyper::kTake)], r.node.attrs.f("clip_threshold"), 0};
  const Shape& tensors = r.node.attrs.shape("tensors");
  int64_t at = 0, kept = 0;
  for (size_t k = 0; k < tensors.size(); k += 2) {
    const int64_t rows = tensors[k], cols = tensors[k + 1];
    s.weight_decay = at < r.node.attrs.i("decayed") ? r.node.attrs.f("weight_decay") : 0;
    update({&r.in[0][static_cast<size_t>(at)], &r.in[1][static_cast<size_t>(at)],
            &r.in[2][static_cast<size_t>(kept)], &r.out[0][static_cast<size_t>(at)],
            &r.out[1][static_cast<size_t>(kept)], &r.magnitude[0][static_cast<size_t>(at)],
            &r.magnitude[1][static_cast<size_t>(kept)], rows, cols},
           s);
    at += std::max<int64_t>(rows, 1) * cols;
    kept += rows + cols;
  }
}

void adjust_adafactor(Reference& r) {
  for (double& v : r.in[2]) v = v * v;
  r.in[3][0] = std::abs(r.in[3][0]) * 5;
  r.in[5] = {0.1, 0.3, 0, 1.0, 0.5};
}
/// The first update, in which nothing is kept, of a gradient that is zero in places.
void adjust_first(Reference& r) {
  adjust_adafactor(r);
  for (double& v : r.in[2]) v = 0;
  for (size_t i = 0; i < r.in[1].size(); i += 3) r.in[1][i] = 0;
  r.in[5][static_cast<size_t>(Hyper::kTake)] = 1;
}
void adjust_not_finite(Reference& r) {
  adjust_adafactor(r);
  r.in[3][0] = INFINITY;
}

std::vector<Case> adafactor_cases() {
  const auto make = [](const char* name, const Shape& tensors, int64_t decayed, void (*adjust)(Reference&)) {
    int64_t n = 0, kept = 0;
    for (size_t k = 0; k < tensors.size(); k += 2) {
      n += std::max<int64_t>(tensors[k], 1) * tensors[k + 1];
      kept += tensors[k] + tensors[k + 1];
    }
    const Attrs attrs{{"tensors", tensors}, {"weight_decay", 0.1}, {"decayed", decayed}};
    return Case{name, {{n}, {n}, {kept}, {1}, {1}, {kHyperCount}}, attrs, {}, 1, adjust};
  };
  return {make("vector", {0, 5}, 0, adjust_adafactor),
          make("matrix", {3, 7}, 21, adjust_adafactor),
          make("several", {65, 33, 1, 9, 40, 1, 0, 130, 0, 1}, 2145, adjust_adafactor),
          make("large", {300, 257, 0, 5000}, 0, adjust_adafactor),
          make("first", {5, 6, 0, 12}, 30, adjust_first),
          make("not finite", {5, 6, 0, 12}, 30, adjust_not_finite)};
}

Cost adafactor_cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 12); }

}  // namespace

/// One update of Adafactor without first moment and with a given learning rate.  tensors: rows and columns of
/// the matrices that follow each other in p, 0 rows for a vector.  s: of a matrix the means of the
/// squared gradients of each row, then of each column; of a vector the squares; kept as (1 − kTake) · s +
/// kTake · new. An update's root mean square is clipped to clip_threshold, tensor by tensor.  Tensors that
/// begin below `decayed` have weight decay.  A norm or loss that is not finite leaves everything as it is.
const OpDef adafactor{
    .name = "adafactor",
    .signature = "p[n]:f32 g[n]:f32 s[k]:f32 norm[1]:f32 loss[1]:f32 hyper[5]:f32 -> p2[n]:f32 s2[k]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"tensors", Shape{}}, {"clip_threshold", 1.0}, {"weight_decay", 0.0}, {"decayed", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = ref_adafactor,
    .cases = adafactor_cases,
    .bound = {.ulp = 8},
    .cost = adafactor_cost,
    .in_place = {{0, 0}, {1, 2}},
    .source =
        "Shazeer and Stern 2018, alg. 4 and 5; transformers' Adafactor with scale_parameter and "
        "relative_step off",
};

}  // namespace lathe::op
