// row_scores, pair_loss: how alike the vectors of two texts are, and what is learnt from that.
#include <algorithm>
#include <cmath>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/ops/similarity.h"

namespace lathe::cpu {
namespace {

using op::PairLoss;
using op::RowScore;

bool is_dot(RowScore kind) { return kind == RowScore::kDot || kind == RowScore::kOneMinusDot; }

void run_row_scores(const Call& c) {
  const RowScore kind = op::row_score(c.node.attrs);
  const auto shift = static_cast<float>(c.node.attrs.f("shift"));
  const int64_t cols = c.cols(0);
  for_shares(c.pool, c.rows(0), cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float *a = c.input<float>(0) + row * cols, *b = c.input<float>(1) + row * cols;
      double sum = 0;
      for (int64_t i = 0; i < cols; ++i) {
        const float d = a[i] - b[i] + shift;
        sum += is_dot(kind)                   ? static_cast<double>(a[i]) * b[i]
               : kind == RowScore::kEuclidean ? static_cast<double>(d) * d
                                              : std::abs(d);
      }
      if (kind == RowScore::kEuclidean) sum = std::sqrt(sum);
      if (kind == RowScore::kOneMinusDot) sum = 1 - sum;
      c.output<float>(0)[row] = static_cast<float>(sum);
    }
  });
}

void run_row_scores_bwd(const Call& c) {
  const RowScore kind = op::row_score(c.node.attrs);
  const auto shift = static_cast<float>(c.node.attrs.f("shift"));
  const int64_t cols = c.cols(1);
  for_shares(c.pool, c.rows(1), cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * cols; i < end * cols; ++i) {
      const float ds = c.input<float>(0)[i / cols], s = c.input<float>(3)[i / cols];
      const float a = c.input<float>(1)[i], b = c.input<float>(2)[i], d = a - b + shift;
      if (is_dot(kind)) {
        const float factor = kind == RowScore::kDot ? ds : -ds;
        c.output<float>(0)[i] = factor * b, c.output<float>(1)[i] = factor * a;
        continue;
      }
      const auto sign = static_cast<float>((d > 0) - (d < 0));
      const float slope = kind == RowScore::kManhattan ? sign : s == 0 ? 0 : d / s;
      c.output<float>(0)[i] = ds * slope, c.output<float>(1)[i] = -ds * slope;
    }
  });
}

/// Each row of pairs by one thread; rows are added up in their order.
void run_cosent(const Call& c) {
  const int64_t n = elements(c.in_type(0));
  const auto* scores = c.input<float>(0);
  const auto* ranks = c.input<int32_t>(1);
  const double factor = c.node.attrs.f("factor");
  double largest = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (ranks[i] < ranks[j])
        largest = std::max(largest, factor * (static_cast<double>(scores[i]) - scores[j]));
  auto *lower = reinterpret_cast<double*>(c.workspace), *higher = lower + n;
  for_shares(c.pool, n, 8 * n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      lower[i] = higher[i] = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double x = factor * (static_cast<double>(scores[i]) - scores[j]);
        if (ranks[i] < ranks[j]) lower[i] += std::exp(x - largest);
        if (ranks[i] > ranks[j]) higher[i] += std::exp(-x - largest);
      }
    }
  });
  double sum = std::exp(-largest);
  for (int64_t i = 0; i < n; ++i) sum += lower[i];
  *c.output<float>(0) = static_cast<float>(largest + std::log(sum));
  for (int64_t i = 0; i < n; ++i)
    c.output<float>(1)[i] = static_cast<float>(factor * (lower[i] - higher[i]) / sum);
}

void run_pair_loss(const Call& c) {
  const PairLoss kind = op::pair_loss_kind(c.node.attrs);
  const int64_t n = elements(c.in_type(0));
  const double margin = c.node.attrs.f("margin"), share = 1 / static_cast<double>(n);
  double loss = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double s = c.input<float>(0)[i], o = c.input<float>(1)[i];
    double ds = 0, d_other = 0;
    if (kind == PairLoss::kTriplet) {
      const double over = std::max(0.0, s - o + margin);
      loss += over, ds = over > 0 ? 1 : 0, d_other = -ds;
    } else {
      const double near = std::max(0.0, margin - s);
      loss += (o * s * s + (1 - o) * near * near) / 2, ds = o * s - (1 - o) * near;
      d_other = (s * s - near * near) / 2;
    }
    c.output<float>(1)[i] = static_cast<float>(ds * share);
    c.output<float>(2)[i] = static_cast<float>(d_other * share);
  }
  *c.output<float>(0) = static_cast<float>(loss * share);
}

size_t sums_of_pairs(const Node& node, const Program& program, Isa, int) {
  return 2 * static_cast<size_t>(elements(program.type(node.in[0]))) * sizeof(double);
}

void run_times(const Call& c) {
  const float factor = *c.input<float>(1);
  for (int64_t i = 0; i < elements(c.out_type(0)); ++i) c.output<float>(0)[i] = factor * c.input<float>(0)[i];
}

/// The columns that both have; further ones are 0.
void run_columns(const Call& c) {
  const int64_t from = c.cols(0), to = c.node.attrs.i("cols"), both = std::min(from, to);
  for_shares(c.pool, c.rows(0), to, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = c.output<float>(0) + row * to;
      std::copy_n(c.input<float>(0) + row * from, both, out);
      std::fill(out + both, out + to, 0.0f);
    }
  });
}

}  // namespace

std::vector<Entry> similarity_entries() {
  return {{.op = &op::row_scores, .run = run_row_scores},
          {.op = &op::row_scores_bwd, .run = run_row_scores_bwd},
          {.op = &op::cosent, .run = run_cosent, .workspace_bytes = sums_of_pairs},
          {.op = &op::pair_loss, .run = run_pair_loss},
          {.op = &op::times, .run = run_times},
          {.op = &op::first_columns, .run = run_columns},
          {.op = &op::first_columns_bwd, .run = run_columns}};
}

}  // namespace lathe::cpu
