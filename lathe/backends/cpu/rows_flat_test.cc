// Row work on whole flat arrays and on losses: norm, AdamW, accumulation, cross entropy.
#include "lathe/backends/cpu/packed_weights.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/backends/cpu/rows_testing.h"

namespace lathe::cpu {
namespace {

using namespace testing;
using Tensors = std::vector<Tensor>;

TEST(SumOfSquares, IsThatOfDoubleForAnyThreads) {
  for (Isa isa : available_isas())
    for (DType t : {DType::f32, DType::bf16, DType::f16})
      for (int64_t n : {0, 1, 31, 33, 255, 256, 257, 16385, 50007})
        for (double scale : {1.0, 1e20, 1e-21}) {  // also where squares leave f32
          Draw draw;
          const Tensor x(t, n, draw.in(t == DType::f16 ? 1e3 : scale));
          double want = 0;
          for (int64_t i = 0; i < n; ++i) want += x[i] * x[i];
          double first = -1;
          for (int threads : {1, 2, 3}) {
            ThreadPool pool(threads);
            Workspace workspace(Rows::sum_of_squares_workspace_bytes(n));
            const double got = Rows(pool, isa).sum_of_squares(n, t, x.data(), workspace.data());
            if (threads == 1) first = got;
            EXPECT_EQ(got, first);
            EXPECT_NEAR(got, want, want * (t == DType::f32 ? 1e-12 : 3 * kEps));
          }
        }
}

// Blocks of zeros, such as an embedding has, are skipped, and threads try several ways.  The result must be
// that of the formula.
TEST(AdamWKernel, LeavesTheBitsThatTheFormulaGivesWhereAllIsZero) {
  constexpr int64_t kN = 12500;
  for (Isa isa : available_isas())
    for (double decay : {0.0, 0.01}) {
      const AdamW a{.lr = 1e-3,
                    .weight_decay = decay,
                    .beta1 = 0.9,
                    .beta2 = 0.999,
                    .eps = 1e-8,
                    .bias_correction1 = 0.1,
                    .bias_correction2 = 0.001,
                    .clip = 0.5};
      std::vector<float> g(kN), p(kN), m(kN), v(kN);
      for (int64_t i = 0; i < kN; ++i) {
        const auto at = static_cast<size_t>(i);
        p[at] = i % 7 == 0 ? -0.f : 0.01f * static_cast<float>(i % 97 - 48);
        const int64_t block = i / 300 % 6;
        if (block == 0) g[at] = i % 300 == 131 ? 0.25f : -0.f;
        if (block == 2) m[at] = i % 300 == 100 ? 0.5f : 0;
        if (block == 4) v[at] = i % 300 == 100 ? 0.5f : 0;
      }
      std::vector<float> p1 = p, m1 = m, v1 = v;
      const RowKernels& kernels = row_kernels(isa);
      kernels.adamw(kN, &a, g.data(), p.data(), m.data(), v.data());
      for (size_t i = 0; i < kN; ++i) kernels.adamw(1, &a, &g[i], &p1[i], &m1[i], &v1[i]);
      EXPECT_EQ(std::memcmp(p.data(), p1.data(), kN * sizeof(float)), 0) << name_of(isa);
      EXPECT_EQ(std::memcmp(m.data(), m1.data(), kN * sizeof(float)), 0) << name_of(isa);
      EXPECT_EQ(std::memcmp(v.data(), v1.data(), kN * sizeof(float)), 0) << name_of(isa);
    }
}

TEST(AdamW, IsThatOfDouble) {
  for (Isa isa : available_isas())
    for (int64_t n : {0, 1, 17, 1000, 40001}) {
      Draw draw;
      const Tensor g(DType::f32, n, draw.in(1)), p0(DType::f32, n, draw.in(1)), m0(DType::f32, n, draw.in(1));
      const Tensor v0(DType::f32, n, [&] { return draw.uniform(0, 1); });
      const AdamW a{2e-3, 0.01, 0.9, 0.999, 1e-8, 1 - 0.9, 1 - 0.999, 0.25};
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{p0, m0, v0};
        PackedState(out[0].f32())
            .adamw(pool, isa, a, 0, n, {{g.f32()}, out[0].f32(), out[1].f32(), out[2].f32()});
        return out;
      });
      std::vector<Expected> p, m, v;
      for (int64_t i = 0; i < n; ++i) {
        const double grad = g[i] * a.clip, m1 = a.beta1 * m0[i] + (1 - a.beta1) * grad;
        const double v1 = a.beta2 * v0[i] + (1 - a.beta2) * grad * grad;
        const double change =
            a.lr / a.bias_correction1 / (std::sqrt(v1) / std::sqrt(a.bias_correction2) + a.eps);
        const double m_size = std::abs(m0[i]) + std::abs(grad);
        p.push_back({p0[i] * (1 - a.lr * a.weight_decay) - change * m1,
                     4 * kEps * std::abs(p0[i]) + 10 * kEps * change * m_size});
        m.push_back({m1, 3 * kEps * m_size});
        v.push_back({v1, 4 * kEps * v1});
      }
      expect_near(got[0], p);
      expect_near(got[1], m);
      expect_near(got[2], v);
    }
}

TEST(Accumulate, KeepsOrStartsAnew) {
  for (Isa isa : available_isas()) {
    const int64_t n = 20011;
    Draw draw;
    const Tensor g(DType::f32, n, draw.in(1)), before(DType::f32, n, draw.in(1));
    for (float keep : {0.f, 1.f, 0.5f}) {
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{keep == 0 ? Tensor(DType::f32, n) : before};  // NaN where nothing may be read
        Rows(pool, isa).accumulate(n, keep, g.f32(), out[0].f32());
        return out;
      });
      std::vector<Expected> want;
      for (int64_t i = 0; i < n; ++i) want.push_back({keep * before[i] + g[i], 0});
      expect_near(got[0], want);
    }
  }
}

/// A loss over rows of `stride` logits: value, and gradient times `dloss`.
struct Loss {
  Expected value{0, 0};
  std::vector<Expected> gradient;
};
struct Row {
  int64_t begin, length, stride, target;
};
Loss exact_loss(const Tensor& logits, const std::vector<Row>& rows, double dloss) {
  Loss loss;
  loss.gradient.resize(static_cast<size_t>(logits.size()));
  double count = 0;
  for (const Row& r : rows) count += r.target >= 0 && r.target < r.length;
  for (const Row& r : rows) {
    if (r.target < 0 || r.target >= r.length) continue;
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r.length; ++i) largest = std::max(largest, logits[r.begin + i * r.stride]);
    for (int64_t i = 0; i < r.length; ++i) sum += std::exp(logits[r.begin + i * r.stride] - largest);
    const double depth = 8 + static_cast<double>(r.length) / 32;
    const double lse = largest + std::log(sum), right = logits[r.begin + r.target * r.stride];
    loss.value.value += (lse - right) / count;
    loss.value.slack += kEps * depth / count;
    for (int64_t i = 0; i < r.length; ++i) {
      const double x = logits[r.begin + i * r.stride], p = std::exp(x - lse);
      loss.gradient[static_cast<size_t>(r.begin + i * r.stride)] = {
          dloss / count * (p - (i == r.target)),
          std::abs(dloss) / count * kEps * (p * (depth + 4 + std::abs(x - lse)) + 2 * (1 - p) * p)};
    }
  }
  return loss;
}

TEST(CrossEntropy, IsThatOfDouble) {
  for (Isa isa : available_isas())
    for (int64_t k : {1, 2, 6, 33, 517, 119547})
      for (double scale : {1.0, 30.0, 1e4})
        for (int64_t b : {0, 1, 7}) {
          if (k > 1000 && (scale != 30 || b != 7)) continue;
          Draw draw;
          const Tensor logits(DType::f32, b * k, draw.in(scale));
          std::vector<int32_t> labels;
          std::vector<Row> rows;
          for (int64_t i = 0; i < b; ++i) {
            labels.push_back(i % 3 == 1 ? -100 : draw.below(static_cast<int32_t>(k)));
            rows.push_back({i * k, k, 1, labels.back()});
          }
          const Loss want = exact_loss(logits, rows, 1.5);
          const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
            Tensors out{{DType::f32, 1}, {DType::f32, b * k}};
            Workspace workspace(Rows::cross_entropy_workspace_bytes(b));
            const Rows r(pool, isa);
            out[0].set(0, r.cross_entropy({b, k}, 0, logits.f32(), labels.data(), workspace.data()));
            r.cross_entropy_bwd({b, k}, 0, 1.5f, logits.f32(), labels.data(), out[1].f32());
            return out;
          });
          SCOPED_TRACE(std::to_string(k) + " " + std::to_string(scale));
          expect_near(got[0], {want.value});
          expect_near(got[1], want.gradient);
        }
}

TEST(SegmentCrossEntropy, IsThatOfDouble) {
  for (Isa isa : available_isas())
    for (int64_t column : {0, 1}) {
      Draw draw;
      const Rows::Size s{450, 2};
      const Tensor logits(DType::f32, s.rows * s.cols, draw.in(8));
      const std::vector<int32_t> cu{0, 1, 1, 40, 424, 431}, targets{0, 0, 17, 383, 7};
      std::vector<Row> rows;
      for (size_t b = 0; b < targets.size(); ++b)
        rows.push_back({cu[b] * 2 + column, cu[b + 1] - cu[b], 2, targets[b]});
      const Loss want = exact_loss(logits, rows, -0.7);
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{{DType::f32, 1}, {DType::f32, logits.size()}};
        Workspace workspace(Rows::cross_entropy_workspace_bytes(5));
        const Rows r(pool, isa);
        out[0].set(0, r.segment_cross_entropy(s, column, logits.f32(), 5, cu.data(), targets.data(),
                                              workspace.data()));
        r.segment_cross_entropy_bwd(s, column, -0.7f, logits.f32(), 5, cu.data(), targets.data(),
                                    out[1].f32());
        return out;
      });
      expect_near(got[0], {want.value}, 2);
      expect_near(got[1], want.gradient, 3);
    }
}

}  // namespace
}  // namespace lathe::cpu
