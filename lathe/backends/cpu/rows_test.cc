#include "lathe/backends/cpu/rows.h"

#include <fmt/format.h>

#include "lathe/backends/cpu/rows_testing.h"
#include "lathe/core/philox.h"

namespace lathe::cpu {
namespace {

using namespace testing;
using Tensors = std::vector<Tensor>;

const int64_t kCols[] = {1, 15, 16, 17, 31, 33, 64, 127, 384, 768, 1024};

struct NormCase {
  int64_t rows, cols;
  double scale, offset;
  float eps;
  double step = 0;  // by which the first kFirst columns, from whose mean deviations are counted, lie higher
};
constexpr int64_t kFirst = 32;
const NormCase kNormCases[] = {
    {0, 8, 1, 0, 1e-5f},     {1, 1, 1, 0, 1e-2f},         {3, 15, 1, 0, 1e-12f},
    {2, 16, 1, 0, 1e-12f},   {2, 17, 1, 0, 1e-12f},       {5, 31, 1, 0, 1e-12f},
    {4, 33, 1, 0, 1e-12f},   {7, 384, 1, 0, 1e-12f},      {130, 768, 1, 0.5, 1e-12f},
    {9, 1024, 1, 0, 1e-12f}, {4, 128, 1e4, 0, 1e-12f},    {3, 96, 1, 1e4, 1e-12f},
    {2000, 24, 1, 0, 1e-5f}, {3, 768, 1, 0, 1e-12f, 100}, {2, 70, 1, 1, 1e-12f, -1e3}};

TEST(LayerNorm, IsThatOfDouble) {
  for_levels([](Isa isa, DType t) {
    for (const NormCase& c : kNormCases) {
      SCOPED_TRACE(c.cols);
      Draw draw;
      int64_t at = 0;
      const Tensor x(t, c.rows * c.cols, [&] {
        return c.offset + (at++ % c.cols < kFirst ? c.step : 0) + draw.uniform(-c.scale, c.scale);
      });
      const Tensor gamma(DType::f32, c.cols, draw.in(2)), beta(DType::f32, c.cols, draw.in(1));
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{{t, x.size()}, {DType::f32, c.rows}, {DType::f32, c.rows}};
        Rows(pool, isa).layer_norm(t, {c.rows, c.cols}, x.data(),
                                   {gamma.f32(), beta.f32(), c.eps, out[1].f32(), out[2].f32()},
                                   out[0].data());
        return out;
      });
      std::vector<Expected> y, means, rstds;
      for (int64_t r = 0; r < c.rows; ++r) {
        const double n = static_cast<double>(c.cols);
        double mean = 0, near = 0, variance = 0, spread = 0, square = 0;
        for (int64_t i = 0; i < c.cols; ++i) mean += x[r * c.cols + i] / n;
        const int64_t first = std::min(c.cols, kFirst);
        for (int64_t i = 0; i < first; ++i) near += x[r * c.cols + i] / static_cast<double>(first);
        for (int64_t i = 0; i < c.cols; ++i) {
          variance += std::pow(x[r * c.cols + i] - mean, 2) / n;
          spread += std::abs(x[r * c.cols + i] - near) / n;
          square += std::pow(x[r * c.cols + i] - near, 2) / n;
        }
        const double rstd = 1 / std::sqrt(variance + double{c.eps});
        // the mean is rounded once, the sums of deviations that correct it and of their squares at most n /
        // 32 + 7 times; what of the squares is not variance is subtracted
        const double mean_error = kEps * (std::abs(mean) + spread * (7 + n / 32));
        const double lost = variance == 0 ? 1 : square / variance;
        const double rstd_error = rstd * kEps * (7 + n / 32) * lost + rstd * std::pow(mean_error * rstd, 2);
        means.push_back({mean, 2 * mean_error});
        rstds.push_back({rstd, rstd_error});
        for (int64_t i = 0; i < c.cols; ++i) {
          const double d = x[r * c.cols + i] - mean;
          y.push_back(
              {d * rstd * gamma[i] + beta[i],
               std::abs(gamma[i]) * (2 * mean_error * rstd + std::abs(d) * (rstd_error + 3 * kEps * rstd)) +
                   kEps * (std::abs(beta[i]) + std::abs(d * rstd * gamma[i]))});
        }
      }
      expect_near(got[0], y);
      expect_near(got[1], means);
      expect_near(got[2], rstds);
    }
  });
}

TEST(LayerNorm, ConstantRowGivesBeta) {
  for_levels([](Isa isa, DType t) {
    for (double value : {0.0, 0.1, -3.0, 1e4, 12345.678}) {
      const int64_t cols = 300;
      const Tensor x(t, cols, [&] { return value; });
      const Tensor gamma(DType::f32, cols, [] { return 3.0; }), beta(DType::f32, cols, [] { return 0.25; });
      ThreadPool pool(1);
      Tensor y(t, cols), mean(DType::f32, 1), rstd(DType::f32, 1);
      Rows(pool, isa).layer_norm(t, {1, cols}, x.data(),
                                 {gamma.f32(), beta.f32(), 1e-12f, mean.f32(), rstd.f32()}, y.data());
      for (int64_t i = 0; i < cols; ++i) ASSERT_EQ(y[i], 0.25) << value;
      ASSERT_EQ(mean[0], x[0]);
    }
  });
}

TEST(LayerNormBackward, IsThatOfDouble) {
  for_levels([](Isa isa, DType t) {
    for (const NormCase& c : kNormCases) {
      SCOPED_TRACE(c.cols);
      Draw draw;
      const Rows::Size s{c.rows, c.cols};
      const Tensor x(t, c.rows * c.cols, [&] { return draw.uniform(-c.scale, c.scale); });
      const Tensor dy(t, c.rows * c.cols, draw.in(1)), gamma(DType::f32, c.cols, draw.in(2));
      const Tensor mean(DType::f32, c.rows, draw.in(c.scale / 3));
      const Tensor rstd(DType::f32, c.rows, [&] { return draw.uniform(1, 2) / c.scale; });
      const Tensor past(t, x.size(), draw.in(3 / c.scale));
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{{t, x.size()}, {DType::f32, c.cols}, {DType::f32, c.cols}, {t, x.size()}};
        Workspace workspace(Rows::layer_norm_bwd_workspace_bytes(s));
        for (const bool adds : {true, false})
          Rows(pool, isa).layer_norm_bwd(t, s, dy.data(), x.data(), gamma.f32(), mean.f32(), rstd.f32(),
                                         out[adds ? 3 : 0].data(), out[1].f32(), out[2].f32(),
                                         workspace.data(), nullptr, nullptr, adds ? past.data() : nullptr);
        return out;
      });
      const double n = static_cast<double>(c.cols);
      std::vector<Expected> dx, sum, dgamma(static_cast<size_t>(c.cols)), dbeta(static_cast<size_t>(c.cols));
      for (int64_t r = 0; r < c.rows; ++r) {
        double a = 0, b = 0, size_a = 0, size_b = 0;
        for (int64_t i = 0; i < c.cols; ++i) {
          const int64_t at = r * c.cols + i;
          const double normal = (x[at] - mean[r]) * rstd[r], g = dy[at] * gamma[i];
          a += g / n;
          b += g * normal / n;
          size_a += std::abs(g) / n;
          size_b += std::abs(g * normal) / n;
          dgamma[static_cast<size_t>(i)].value += dy[at] * normal;
          dbeta[static_cast<size_t>(i)].value += dy[at];
          // at most rows / 64 terms one after another, then a tree
          const double depth = 10 + static_cast<double>(c.rows) / 32;
          dgamma[static_cast<size_t>(i)].slack += depth * kEps * std::abs(dy[at] * normal);
          dbeta[static_cast<size_t>(i)].slack += depth * kEps * std::abs(dy[at]);
        }
        for (int64_t i = 0; i < c.cols; ++i) {
          const int64_t at = r * c.cols + i;
          const double normal = (x[at] - mean[r]) * rstd[r], g = dy[at] * gamma[i], depth = 8 + n / 32;
          dx.push_back(
              {rstd[r] * (g - a - normal * b),
               kEps * rstd[r] * (4 * std::abs(g) + depth * size_a + depth * std::abs(normal) * size_b)});
          sum.push_back({dx.back().value + past[at], dx.back().slack});
        }
      }
      expect_near(got[0], dx);
      expect_near(got[1], dgamma);
      expect_near(got[2], dbeta);
      expect_near(got[3], sum);
    }
  });
}

TEST(RmsNorm, IsThatOfDoubleForwardAndBackward) {
  for_levels([](Isa isa, DType t) {
    for (const NormCase& c : kNormCases)
      for (const float more : {0.f, 1.f}) {
        SCOPED_TRACE(fmt::format("{} columns, gamma + {}", c.cols, more));
        Draw draw;
        const Rows::Size s{c.rows, c.cols};
        const int64_t all = c.rows * c.cols;
        const Tensor x(t, all, draw.in(c.scale)), dy(t, all, draw.in(1)), past(t, all, draw.in(3 / c.scale));
        const Tensor gamma(DType::f32, c.cols, draw.in(2));
        const float eps = 1e-6f;
        const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
          Tensors out{{t, all}, {DType::f32, c.rows}, {t, all}, {DType::f32, c.cols}, {t, all}};
          const Rows::RmsNorm norm{gamma.f32(), more, eps, out[1].f32()};
          Workspace workspace(Rows::rms_norm_bwd_workspace_bytes(s));
          const Rows rows(pool, isa);
          rows.rms_norm(t, s, x.data(), nullptr, norm, nullptr, out[0].data());
          for (const bool adds : {true, false})
            rows.rms_norm_bwd(t, s, dy.data(), x.data(), norm, adds ? past.data() : nullptr,
                              out[adds ? 4 : 2].data(), out[3].f32(), workspace.data());
          return out;
        });
        const double n = static_cast<double>(c.cols), depth = 8 + n / 32;
        std::vector<Expected> y, rstds, dx, sum, dgamma(static_cast<size_t>(c.cols));
        for (int64_t r = 0; r < c.rows; ++r) {
          double square = 0, b = 0, size_b = 0;
          for (int64_t i = 0; i < c.cols; ++i) square += x[r * c.cols + i] * x[r * c.cols + i] / n;
          const double rstd = 1 / std::sqrt(square + double{eps});
          const double off = kEps * (depth / 2 + 5);  // of rstd, by half of the sum's; then products
          rstds.push_back({rstd, rstd * off});
          const auto weight = [&](int64_t i) { return gamma[i] + more; };
          for (int64_t i = 0; i < c.cols; ++i) {
            const double normal = x[r * c.cols + i] * rstd, d = dy[r * c.cols + i];
            y.push_back({normal * weight(i), std::abs(normal * weight(i)) * off});
            b += d * weight(i) * normal / n;
            size_b += std::abs(d * weight(i) * normal) / n;
            Expected& of_gamma = dgamma[static_cast<size_t>(i)];
            of_gamma.value += d * normal;
            of_gamma.slack += std::abs(d * normal) * (off + kEps * (10 + static_cast<double>(c.rows) / 32));
          }
          for (int64_t i = 0; i < c.cols; ++i) {
            const int64_t at = r * c.cols + i;
            const double g = dy[at] * weight(i), normal = x[at] * rstd;
            dx.push_back({rstd * (g - normal * b),
                          rstd * (std::abs(g) * off + std::abs(normal) * size_b * (3 * off + kEps * depth))});
            sum.push_back({dx.back().value + past[at], dx.back().slack});
          }
        }
        expect_near(got[0], y);
        expect_near(got[1], rstds);
        expect_near(got[2], dx);
        expect_near(got[3], dgamma);
        expect_near(got[4], sum);
      }
  });
}

TEST(ColumnSums, AreThoseOfDouble) {
  for_levels([](Isa isa, DType t) {
    for (int64_t rows : {0, 1, 17, 1000})
      for (int64_t cols : kCols) {
        Draw draw;
        const Tensor x(t, rows * cols, draw.in(3));
        const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
          Tensors out{{DType::f32, cols}};
          Workspace workspace(Rows::column_sums_workspace_bytes({rows, cols}));
          Rows(pool, isa).column_sums(t, {rows, cols}, x.data(), out[0].f32(), workspace.data());
          return out;
        });
        std::vector<Expected> want(static_cast<size_t>(cols));
        for (int64_t i = 0; i < rows * cols; ++i) {
          want[static_cast<size_t>(i % cols)].value += x[i];
          want[static_cast<size_t>(i % cols)].slack += 24 * kEps * std::abs(x[i]);
        }
        expect_near(got[0], want);
      }
  });
}

TEST(Dropout, IsTheScalarRuleBitForBit) {
  for_levels([](Isa isa, DType t) {
    for (int64_t cols : kCols)
      for (double p : {0.0, 0.1, 0.5, 1.0}) {
        const int64_t rows = 37;
        Draw draw;
        const Tensor x(t, rows * cols, draw.in(3)), base(t, rows * cols, draw.in(3));
        const Tensor gamma(DType::f32, cols, draw.in(1));
        std::vector<int32_t> samples, positions;
        for (int64_t r = 0; r < rows; ++r) {
          samples.push_back(draw.below(1000) - 500);
          positions.push_back(draw.below(512));
        }
        const DropoutRule rule = dropout_rule(draw.word(), 0xfffffffeu, dropout_site("x"), p);
        for (bool residual : {false, true})
          for (bool placed : {false, true}) {
            const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
              Tensors out{{t, rows * cols}, {t, rows * cols}, {DType::f32, rows}, {DType::f32, rows}};
              const Rows::Dropped dropped{rule, samples.data(), placed ? positions.data() : nullptr};
              if (residual)
                Rows(pool, isa).add_layer_norm(t, {rows, cols}, &dropped, x.data(), base.data(),
                                               {gamma.f32(), gamma.f32(), 1e-5f, out[2].f32(), out[3].f32()},
                                               out[0].data(), out[1].data());
              else
                Rows(pool, isa).dropout(t, {rows, cols}, dropped, x.data(), out[0].data());
              return out;
            });
            Tensor want(t, rows * cols);
            for (int64_t i = 0; i < rows * cols; ++i) {
              const size_t r = static_cast<size_t>(i / cols);
              const auto words = philox(
                  {static_cast<uint32_t>(i % cols / 8), placed ? static_cast<uint32_t>(positions[r]) : 0,
                   static_cast<uint32_t>(samples[r]), rule.site},
                  rule.seed, rule.step);
              const bool kept = dropout_bits(words, static_cast<int>(i % cols % 8)) >= dropout_threshold(p);
              const double y =
                  kept ? x[i] * double{rule.scale} : 0;  // exact in double, rounded once or twice
              want.set(i, static_cast<float>(y));
              if (residual && !kept) {
                ASSERT_EQ(got[0][i], base[i]);
              } else if (residual) {  // with or without a fused multiply and add
                ASSERT_NEAR(got[0][i], base[i] + y, (eps_of(t) + kEps) * (std::abs(base[i]) + std::abs(y)));
              }
            }
            EXPECT_TRUE(got[0].intact());
            EXPECT_TRUE(residual || got[0] == want) << cols << " " << p;
          }
      }
  });
}

/// A fused kernel gives the bits of its parts run one after another, with any number of threads.
TEST(FusedRows, AreTheirKernelsOneAfterAnother) {
  for_levels([](Isa isa, DType t) {
    for (const Rows::Size& s : {Rows::Size{1, 1}, {37, 33}, {130, 768}, {2000, 24}, {3, 5000}}) {
      const int64_t rows = s.rows, cols = s.cols, n = rows * cols;
      Draw draw;
      const Tensor x(t, n, draw.in(3)), r(t, n, draw.in(3)), dy(t, n, draw.in(1));
      const Tensor gamma(DType::f32, cols, draw.in(2)), beta(DType::f32, cols, draw.in(1));
      std::vector<int32_t> samples;
      for (int64_t i = 0; i < rows; ++i) samples.push_back(static_cast<int32_t>(i));
      const Rows::Dropped dropped{dropout_rule(1, 2, 3, 0.1), samples.data(), nullptr};
      const auto run = [&](ThreadPool& pool, bool fused) {
        Tensors out{{t, n}, {t, n}, {DType::f32, rows}, {DType::f32, rows},
                    {t, n}, {t, n}, {DType::f32, cols}, {DType::f32, cols},
                    x};
        const Rows k(pool, isa);
        const Rows::Norm norm{gamma.f32(), beta.f32(), 1e-5f, out[2].f32(), out[3].f32()};
        void *sum = out[0].data(), *y = out[1].data(), *dx = out[4].data(), *dd = out[5].data();
        if (fused) {
          k.add_layer_norm(t, s, nullptr, x.data(), r.data(), norm, sum, y);
          void* x_and_y = out[8].data();  // the sum is kept nowhere
          k.add_layer_norm(t, s, nullptr, x_and_y, r.data(), norm, x_and_y, x_and_y);
        } else {
          k.add(t, n, x.data(), r.data(), sum);
          k.layer_norm(t, s, sum, norm, y);
          out[8] = out[1];
        }
        Workspace workspace(Rows::layer_norm_bwd_workspace_bytes(s));
        k.layer_norm_bwd(t, s, dy.data(), sum, norm.gamma, norm.mean, norm.rstd, dx, out[6].f32(),
                         out[7].f32(), workspace.data(), fused ? &dropped : nullptr, dd);
        if (!fused) k.dropout(t, s, dropped, dx, dd);
        return out;
      };
      ThreadPool one(1);
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) { return run(pool, true); });
      const Tensors want = run(one, false);
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == want[i]) << i << ": " << rows;
    }
  });
}

/// Memory between the rows is neither read nor written, and the rows equal those of dense matrices.
TEST(Rows, WithGapsAreThoseWithout) {
  for_levels([](Isa isa, DType t) {
    for (const Rows::Size& size : {Rows::Size{1, 33, 40}, {3, 16, 48}, {37, 33, 34}, {200, 256, 288}}) {
      const int64_t m = size.rows, n = size.cols;
      const auto run = [&](int64_t ld) {
        const Rows::Size s{m, n, ld};
        const auto made = [&](uint32_t seed) {
          Draw draw(seed);
          Tensor x(t, m * ld);
          for (int64_t i = 0; i < m * n; ++i)
            x.set(i / n * ld + i % n, static_cast<float>(draw.uniform(-2, 2)));
          return x;
        };
        const Tensor a = made(1), b = made(2);
        Draw draw;
        const Tensor gamma(DType::f32, n, draw.in(2)), beta(DType::f32, n, draw.in(1));
        std::vector<int32_t> ids;
        for (int64_t i = 0; i < m; ++i) ids.push_back(static_cast<int32_t>(m - 1 - i));
        const Rows::Dropped dropped{dropout_rule(1, 2, 3, 0.1), ids.data(), nullptr};
        Tensors out = same_for_all_threads([&](ThreadPool& pool) {
          Tensors y(20, Tensor(t, m * ld));
          for (int i = 0; i < 2; ++i) y.emplace_back(DType::f32, m);
          for (int i = 0; i < 2; ++i) y.emplace_back(DType::f32, n);
          const auto to = [&](size_t i) { return y[i].data(); };
          const Rows k(pool, isa);
          k.gelu(t, s, a.data(), to(0));
          k.gelu_bwd(t, s, a.data(), b.data(), to(1));
          k.relu(t, s, a.data(), to(2));
          k.relu_bwd(t, s, a.data(), b.data(), to(3));
          k.tanh(t, s, a.data(), to(4));
          k.tanh_bwd(t, s, a.data(), b.data(), to(5));
          k.add(t, s, a.data(), b.data(), to(6));
          k.mul(t, s, a.data(), b.data(), to(7));
          k.scale(t, s, a.data(), 0.3f, to(8));
          k.cast(t, t, s, a.data(), to(9), ld);
          k.dropout(t, s, dropped, a.data(), to(10));
          const Rows::Norm norm{gamma.f32(), beta.f32(), 1e-5f, y[20].f32(), y[21].f32()};
          k.add_layer_norm(t, s, nullptr, a.data(), b.data(), norm, to(11), to(12));
          k.add_layer_norm(t, s, &dropped, a.data(), b.data(), norm, to(17), to(18));
          k.layer_norm(t, s, a.data(), norm, to(13));
          Workspace space(Rows::layer_norm_bwd_workspace_bytes(s));
          k.layer_norm_bwd(t, s, b.data(), a.data(), norm.gamma, norm.mean, norm.rstd, to(14), y[22].f32(),
                           y[23].f32(), space.data(), &dropped, to(15));
          k.layer_norm_bwd(t, s, b.data(), a.data(), norm.gamma, norm.mean, norm.rstd, to(19), y[22].f32(),
                           y[23].f32(), space.data(), nullptr, nullptr, a.data());
          k.gather_rows(t, t, s, a.data(), ids.data(), to(16), ld);
          return y;
        });
        for (int64_t table_rows : {m, 2 * Rows::kSmallTable}) {
          ThreadPool pool(2);
          Tensor& table = out.emplace_back(t, table_rows * ld);
          Workspace space(Rows::scatter_add_rows_workspace_bytes(s, table_rows));
          Rows(pool, isa).scatter_add_rows(t, t, s, a.data(), ids.data(), table_rows, -1, table.data(),
                                           space.data(), nullptr, ld);
        }
        return out;
      };
      const Tensors dense = run(n), apart = run(size.ld);
      for (size_t o = 0; o < dense.size(); ++o) {
        EXPECT_TRUE(apart[o].intact());
        const bool matrix = apart[o].size() != dense[o].size();
        for (int64_t i = 0; i < dense[o].size(); ++i)
          ASSERT_EQ(apart[o][matrix ? i / n * size.ld + i % n : i], dense[o][i])
              << "output " << o << ", element " << i << " of rows of " << n;
        if (!matrix || o + 1 == dense.size()) continue;  // gaps of a large table may take zeros, too
        for (int64_t i = 0; i < apart[o].size(); ++i)
          ASSERT_TRUE(i % size.ld < n || std::isnan(apart[o][i])) << "output " << o << ", gap " << i;
      }
    }
  });
}

TEST(GatherRows, CopiesAndConverts) {
  for_levels([](Isa isa, DType from) {
    for (DType to : {DType::f32, DType::bf16, DType::f16})
      for (int64_t cols : kCols) {
        Draw draw;
        const Tensor table(from, 50 * cols, draw.in(1));
        std::vector<int32_t> ids;
        for (int i = 0; i < 100; ++i) ids.push_back(draw.below(50));
        const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
          Tensors out{{to, 100 * cols}};
          Rows(pool, isa).gather_rows(from, to, {100, cols}, table.data(), ids.data(), out[0].data());
          return out;
        });
        std::vector<Expected> want;
        for (int32_t id : ids)
          for (int64_t c = 0; c < cols; ++c) want.push_back({table[id * cols + c], 0});
        expect_near(got[0], want, from == to || to == DType::f32 ? 0 : 1);
      }
  });
}

TEST(ScatterAddRows, SumsInAscendingOrder) {
  for_levels([](Isa isa, DType from) {
    for (DType to : {DType::f32, DType::bf16, DType::f16})
      for (int64_t table_rows : {1, 2, 40, 3000})
        for (int64_t n : {0, 1, 300}) {
          const int64_t cols = table_rows == 40 ? 33 : 80;
          Draw draw;
          const Tensor dy(from, n * cols, draw.in(1));
          std::vector<int32_t> ids;
          for (int64_t i = 0; i < n; ++i) ids.push_back(draw.below(static_cast<int32_t>(table_rows)));
          const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
            Tensors out{{to, table_rows * cols}};
            Workspace workspace(Rows::scatter_add_rows_workspace_bytes({n, cols}, table_rows));
            Rows(pool, isa).scatter_add_rows(from, to, {n, cols}, dy.data(), ids.data(), table_rows, -1,
                                             out[0].data(), workspace.data());
            return out;
          });
          std::vector<float> sums(static_cast<size_t>(table_rows * cols));
          for (int64_t i = 0; i < n * cols; ++i)
            sums[static_cast<size_t>(ids[static_cast<size_t>(i / cols)] * cols + i % cols)] +=
                static_cast<float>(dy[i]);
          std::vector<Expected> want;
          for (float sum : sums) want.push_back({double{sum}, 0});
          expect_near(got[0], want, to == DType::f32 ? 0 : 1);
        }
  });
}

}  // namespace
}  // namespace lathe::cpu
