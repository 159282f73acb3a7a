// SGD and Adafactor over flat arenas.  Both are limited by memory, so plain loops are fast enough.
#include <algorithm>
#include <cmath>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"

namespace lathe::cpu {
namespace {

/// What both read in addition to their arenas.
struct Update {
  double rate, take, factor;
  bool apply;

  explicit Update(const Call& c) {
    const float* hyper = c.input<float>(5);
    const float norm = *c.input<float>(3);
    rate = hyper[static_cast<int>(Hyper::kLearningRate)];
    take = hyper[static_cast<int>(Hyper::kTake)];
    factor = gradient_factor(hyper, norm);
    apply = std::isfinite(norm) && std::isfinite(*c.input<float>(4));
  }
};

/// f(begin, end) over shares of [0, n), on one thread where that is little work.
template <typename F>
void for_shares(const Call& c, int64_t n, int64_t work_each, F f) {
  constexpr int64_t kWorthThreads = 1 << 15;
  if (n * work_each < kWorthThreads) return f(int64_t{0}, n);
  c.pool.run([&](int part, int parts) {
    const Share mine = share(n, part, parts);
    f(static_cast<int64_t>(mine.begin), static_cast<int64_t>(mine.end));
  });
}

void run_sgd(const Call& c) {
  const Update u(c);
  if (!u.apply) return;
  const Attrs& a = c.node.attrs;
  const float momentum = static_cast<float>(a.f("momentum")), decay = static_cast<float>(a.f("weight_decay"));
  const float rate = static_cast<float>(u.rate), take = static_cast<float>(u.take);
  const float factor = static_cast<float>(u.factor);
  const bool nesterov = a.b("nesterov");
  const int64_t decayed = a.i("decayed");
  const float* grad = c.input<float>(1);
  float *p = c.output<float>(0), *m = c.output<float>(1);
  const auto update = [&](int64_t begin, int64_t end, float with_decay) {
    for (int64_t i = begin; i < end; ++i) {
      const float g = grad[i] * factor + with_decay * p[i];
      float step = g;
      if (momentum != 0) {
        m[i] = momentum * m[i] + take * g;
        step = nesterov ? g + momentum * m[i] : m[i];
      }
      p[i] -= rate * step;
    }
  };
  for_shares(c, elements(c.in_type(0)), 1, [&](int64_t begin, int64_t end) {
    const int64_t middle = std::clamp(decayed, begin, end);
    update(begin, middle, decay);
    update(middle, end, 0);
  });
}

constexpr double kTiny = 1e-30;  // added to every squared gradient

/// One tensor of the arena [rows, cols], and the means of its squared gradients: kept for its rows, then its
/// columns; for a vector (one row), for every element.
struct Part {
  const float* g;
  float *p, *kept;
  int64_t rows, cols;
  bool vector;
};

/// Sums in double, each in a fixed order whatever the number of threads: the same bits.
class Adafactor {
 public:
  Adafactor(const Call& c, const Update& u) : c_(c), u_(u), sums_(reinterpret_cast<double*>(c.workspace)) {}

  void update(const Part& t, double weight_decay) const {
    double* factors = sums_ + t.rows;  // of the columns
    if (t.vector)
      keep_squares(t);
    else
      keep_means(t);
    for_shares(c_, t.cols, 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j)
        factors[j] = 1 / std::sqrt(static_cast<double>(t.kept[(t.vector ? 0 : t.rows) + j]));
    });
    double mean = 0;
    for (int64_t i = 0; i < t.rows && !t.vector; ++i) mean += t.kept[i];
    mean /= static_cast<double>(t.rows);
    const auto of_row = [&](int64_t i) { return t.vector ? 1 : std::sqrt(mean / t.kept[i]); };
    sum_squares(t, of_row, factors);
    double squares = 0;
    for (int64_t i = 0; i < t.rows; ++i) squares += sums_[i];
    const double rms = std::sqrt(squares / static_cast<double>(t.rows * t.cols));
    const double by = u_.rate * u_.factor / std::max(1.0, rms / c_.node.attrs.f("clip_threshold"));
    const double left = 1 - weight_decay * u_.rate;
    for_shares(c_, t.rows, t.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double step = by * of_row(i);
        for (int64_t k = i * t.cols, j = 0; j < t.cols; ++j, ++k)
          t.p[k] = static_cast<float>(t.p[k] * left - step * factors[j] * t.g[k]);
      }
    });
  }

 private:
  double square(float g) const {
    const double scaled = g * u_.factor;
    return scaled * scaled + kTiny;
  }
  void keep(float& kept, double now) const {
    kept = static_cast<float>((1 - u_.take) * kept + u_.take * now);
  }

  void keep_squares(const Part& t) const {
    for (int64_t j = 0; j < t.cols; ++j) keep(t.kept[j], square(t.g[j]));
  }

  void keep_means(const Part& t) const {
    for_shares(c_, t.rows, t.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < t.cols; ++j) sum += square(t.g[i * t.cols + j]);
        keep(t.kept[i], sum / static_cast<double>(t.cols));
      }
    });
    double* sums = sums_ + t.rows;
    for_shares(c_, t.cols, t.rows, [&](int64_t begin, int64_t end) {
      std::fill(sums + begin, sums + end, 0.0);
      for (int64_t i = 0; i < t.rows; ++i)
        for (int64_t j = begin; j < end; ++j) sums[j] += square(t.g[i * t.cols + j]);
      for (int64_t j = begin; j < end; ++j) keep(t.kept[t.rows + j], sums[j] / static_cast<double>(t.rows));
    });
  }

  /// The sum of the squared update of every row, into sums_.
  template <typename F>
  void sum_squares(const Part& t, F of_row, const double* factors) const {
    for_shares(c_, t.rows, t.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double by = of_row(i) * u_.factor;
        double sum = 0;
        for (int64_t j = 0; j < t.cols; ++j) {
          const double x = by * factors[j] * t.g[i * t.cols + j];
          sum += x * x;
        }
        sums_[i] = sum;
      }
    });
  }

  const Call& c_;
  const Update& u_;
  double* sums_;  ///< [rows], then [cols]
};

void run_adafactor(const Call& c) {
  const Update u(c);
  if (!u.apply) return;
  const Attrs& a = c.node.attrs;
  const Shape& tensors = a.shape("tensors");
  const Adafactor adafactor(c, u);
  int64_t at = 0, kept = 0;
  for (size_t k = 0; k < tensors.size(); k += 2) {
    const int64_t rows = std::max<int64_t>(tensors[k], 1), cols = tensors[k + 1];
    adafactor.update({c.input<float>(1) + at, c.output<float>(0) + at, c.output<float>(1) + kept, rows, cols,
                      tensors[k] == 0},
                     at < a.i("decayed") ? a.f("weight_decay") : 0);
    at += rows * cols;
    kept += tensors[k] + cols;
  }
}

size_t adafactor_workspace(const Node& node, const Program&, Isa, int) {
  const Shape& tensors = node.attrs.shape("tensors");
  int64_t most = 0;
  for (size_t k = 0; k < tensors.size(); k += 2)
    most = std::max(most, std::max<int64_t>(tensors[k], 1) + tensors[k + 1]);
  return static_cast<size_t>(most) * sizeof(double);
}

}  // namespace

std::vector<Entry> optimizer_entries() {
  return {{&op::sgd, run_sgd}, {&op::adafactor, run_adafactor, adafactor_workspace}};
}

}  // namespace lathe::cpu
