#include <fmt/format.h>

#include "lathe/backends/cpu/rows.h"
#include "lathe/backends/cpu/rows_testing.h"

namespace lathe::cpu {
namespace {

using namespace testing;
using Tensors = std::vector<Tensor>;

/// Numbers of every size and sign, and the special ones.
std::vector<float> wide_range() {
  Draw draw(7);
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.f, -0.f, inf, -inf, std::nanf(""), 0x1p-149f, -0x1p-126f, 3.4e38f, -3.4e38f};
  for (int i = 0; i < 60000; ++i) x.push_back(static_cast<float>(draw.uniform(-15, 15)));
  for (int i = 0; i < 20000; ++i) x.push_back(static_cast<float>(draw.uniform(-110, 110)));
  for (int e = -149; e < 128; ++e)
    for (int i = 0; i < 40; ++i)
      x.push_back(std::ldexp(static_cast<float>(draw.uniform(1, 2)), e) * (i % 2 == 0 ? 1.f : -1.f));
  return x;
}

/// Largest error of f over wide_range, in ulps of the result; results below `tiny` only need be below 2·tiny.
template <typename F, typename G>
double worst_ulps(F run, G exact, double tiny) {
  const std::vector<float> x = wide_range();
  std::vector<float> y(x.size());
  run(static_cast<int64_t>(x.size()), x.data(), y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = exact(double{x[i]});
    if (std::isnan(want) || std::isinf(want)) {
      EXPECT_TRUE(std::isnan(want) ? std::isnan(y[i]) : double{y[i]} == want) << x[i] << " gives " << y[i];
    } else if (std::abs(want) < tiny) {
      EXPECT_LT(std::abs(y[i]), 2 * tiny) << x[i];
    } else if (std::abs(want) < 3.4028234e38) {
      worst = std::max(worst, std::abs(double{y[i]} - want) / (std::abs(want) * 0x1p-23));
    }
  }
  return worst;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double normal_pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

TEST(Elementwise, ExpTanhGeluAreExactToAFewUlps) {
  ThreadPool pool(1);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const Rows rows(pool, isa);
    const double tiny = 0x1p-126;
    const auto exp_of = [&](int64_t n, const float* x, float* y) {
      row_kernels(isa).softmax_bwd(n, 1, x, 0, 1.f, y);
    };
    EXPECT_LE(worst_ulps(
                  exp_of, [](double x) { return x > 88.72283 ? INFINITY : std::exp(x); }, tiny),
              1.1);
    EXPECT_LE(worst_ulps([&](int64_t n, const float* x, float* y) { rows.tanh(DType::f32, n, x, y); },
                         [](double x) { return std::tanh(x); }, 0x1p-149),
              2);
    // Φ underflows below −13, and x · Φ with it
    EXPECT_LE(worst_ulps([&](int64_t n, const float* x, float* y) { rows.gelu(DType::f32, n, x, y); },
                         [](double x) { return x * normal_cdf(x); }, 14 * tiny),
              3.5);
  }
}

// For every value of the type: half a unit in the last place, plus the allowed error of the short form of Φ.
TEST(Elementwise, GeluOfTwoBytesIsExactToItsRounding) {
  ThreadPool pool(1);
  for_levels([&](Isa isa, DType t) {
    if (t == DType::f32) return;
    Tensor x(t, 0x10000), y(t, 0x10000), dx(t, 0x10000), ones(t, 0x10000, [] { return 1.0; });
    for (uint32_t bits = 0; bits < 0x10000; ++bits)
      reinterpret_cast<uint16_t*>(x.data())[bits] = static_cast<uint16_t>(bits);
    Rows(pool, isa).gelu(t, x.size(), x.data(), y.data());
    Rows(pool, isa).gelu_bwd(t, x.size(), ones.data(), x.data(), dx.data());
    std::vector<Expected> gelu, derivative;
    for (int64_t i = 0; i < x.size(); ++i) {
      const double v = x[i], a = normal_cdf(v), b = v * normal_pdf(v);
      gelu.push_back({v * a, 0x1p-16 * std::abs(v * a) + 14 * 0x1p-126});  // Φ underflows below −13
      derivative.push_back({a + b, 0x1p-16 * (std::abs(a) + std::abs(b)) + 14 * 0x1p-126});
    }
    expect_near(y, gelu);
    expect_near(dx, derivative);
  });
}

TEST(Elementwise, GeluDerivativeIsExactToTheSizeOfItsTerms) {
  ThreadPool pool(1);
  const std::vector<float> x = wide_range(), ones(x.size(), 1.f);
  for (Isa isa : available_isas()) {
    std::vector<float> dx(x.size());
    Rows(pool, isa).gelu_bwd(DType::f32, static_cast<int64_t>(x.size()), ones.data(), x.data(), dx.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], a = normal_cdf(v), b = v * normal_pdf(v);
      if (std::isnan(a + b)) {
        ASSERT_TRUE(std::isnan(dx[i])) << v;
      } else {
        ASSERT_LE(std::abs(double{dx[i]} - (a + b)), 7 * kEps * (std::abs(a) + std::abs(b)) + 0x1p-120)
            << name_of(isa) << " at " << v;
      }
    }
  }
}

// Bounds as op::gated has them.
TEST(Elementwise, SiluAndGeluTanhAreExactToTheSizeOfTheirTerms) {
  ThreadPool pool(1);
  std::vector<float> x = wide_range();
  const int64_t n = static_cast<int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.f);
  x.resize(2 * x.size(), 1.f);  // the gates
  const Rows::Size size{1, n};
  for (Isa isa : available_isas())
    for (const bool silu : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(isa), silu ? "silu" : "gelu_tanh"));
      const Activation activation = silu ? Activation::kSilu : Activation::kGeluTanh;
      std::vector<float> y(ones), dx(x.size());
      Rows(pool, isa).gated(DType::f32, activation, size, x.data(), y.data());
      Rows(pool, isa).gated_bwd(DType::f32, activation, size, ones.data(), x.data(), dx.data());
      for (size_t i = 0; i < ones.size(); ++i) {
        const double u = x[i], c = 2 * std::sqrt(2 / M_PI), cubic = 0.044715;
        if (std::isnan(u)) {
          ASSERT_TRUE(std::isnan(y[i]) && std::isnan(dx[i]));
        }
        if (!std::isfinite(u)) continue;
        const double w = silu ? u : c * (u + cubic * u * u * u),
                     bend = silu ? 1 : c * (1 + 3 * cubic * u * u);
        const double tail = 1 / (1 + std::exp(std::abs(w))), s = w < 0 ? tail : 1 - tail;
        const double both = tail * (1 - tail), moved = silu ? 0 : 6 * std::abs(w), bent = std::abs(u * bend);
        const double s_off = kEps * (6 * s + moved * both) + 0x1p-126;
        for (const float value : {y[i], dx[i + ones.size()]})
          ASSERT_LE(std::abs(value - u * s), std::abs(u) * (s_off + 2 * kEps * s) + 1e-45) << u;
        const double slope_off = s_off + 3 * kEps * s + bent * (kEps * both * (23 + moved) + 0x1p-126);
        ASSERT_LE(std::abs(dx[i] - (s + u * bend * both)), slope_off) << u;
      }
    }
}

TEST(HeadNorm, IsTheRmsNormOfEachHead) {
  for_levels([](Isa isa, DType t) {
    for (const int64_t rows : {0, 1, 700}) {
      const int64_t heads = 3, kv_heads = 1, width = 24, normal = heads + kv_heads, all = normal + kv_heads;
      Draw draw;
      const Rows::Size size{rows, all * width};
      const Tensor x(t, rows * size.cols, draw.in(2)), dy(t, x.size(), draw.in(1));
      const Tensor gamma[] = {{DType::f32, width, draw.in(2)}, {DType::f32, width, draw.in(2)}};
      const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
        Tensors out{{t, x.size()},
                    {DType::f32, rows * normal},
                    {t, x.size()},
                    {DType::f32, width},
                    {DType::f32, width}};
        const Rows::HeadNorm norm{heads,          kv_heads, width, gamma[0].f32(),
                                  gamma[1].f32(), 1.f,      1e-6f, out[1].f32()};
        Workspace workspace(Rows::head_norm_bwd_workspace_bytes(rows, width));
        Rows(pool, isa).head_norm(t, size, x.data(), norm, out[0].data());
        Rows(pool, isa).head_norm_bwd(t, size, dy.data(), x.data(), norm, out[2].data(), out[3].f32(),
                                      out[4].f32(), workspace.data());
        return out;
      });
      ThreadPool pool(1);
      for (int64_t head = 0; head < all; ++head)
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t first = row * size.cols + head * width;
          Tensor y(t, width), dx(t, width), rstd(DType::f32, 1), dgamma(DType::f32, width);
          const Rows::RmsNorm norm{gamma[head < heads ? 0 : 1].f32(), 1.f, 1e-6f, rstd.f32()};
          Workspace workspace(Rows::rms_norm_bwd_workspace_bytes({1, width}));
          const auto of = [&](const Tensor& tensor) {
            return tensor.data() + static_cast<size_t>(first) * size_of(t);
          };
          Rows(pool, isa).rms_norm(t, {1, width}, of(x), nullptr, norm, nullptr, y.data());
          Rows(pool, isa).rms_norm_bwd(t, {1, width}, of(dy), of(x), norm, nullptr, dx.data(), dgamma.f32(),
                                       workspace.data());
          for (int64_t d = 0; d < width; ++d) {
            ASSERT_EQ(got[0][first + d], head < normal ? y[d] : x[first + d]) << head << ' ' << row;
            ASSERT_EQ(got[2][first + d], head < normal ? dx[d] : dy[first + d]) << head << ' ' << row;
          }
          if (head < normal) {
            ASSERT_EQ(got[1][row * normal + head], rstd[0]);
          }
        }
      std::vector<Expected> sums[] = {std::vector<Expected>(width, {0, 0}),
                                      std::vector<Expected>(width, {0, 0})};
      for (int64_t head = 0; head < normal; ++head)
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t d = 0; d < width; ++d) {
            const int64_t at = row * size.cols + head * width + d;
            Expected& sum = sums[head < heads ? 0 : 1][static_cast<size_t>(d)];
            const double term = dy[at] * x[at] * got[1][row * normal + head];
            sum.value += term;  // of at most 64 blocks, each of rows / 64 rows and their heads
            sum.slack += kEps * (10 + 3 * static_cast<double>(rows) / 32) * std::abs(term);
          }
      expect_near(got[3], sums[0]);
      expect_near(got[4], sums[1]);
    }
  });
}

TEST(Elementwise, IsThatOfDoubleForAllSizes) {
  for_levels([](Isa isa, DType t) {
    for (int64_t n : {0, 1, 15, 16, 17, 31, 33, 64, 100, 50001}) {
      Draw draw;
      const Tensor a(t, n, draw.in(3)), b(t, n, draw.in(3));
      struct Op {
        std::function<void(const Rows&, void*)> run;
        std::function<Expected(double, double)> exact;
      };
      const double short_form = t == DType::f32 ? 0 : 0x1p-16;  // see rows_gelu.h
      const auto tanh_of = [](double x, double) { return Expected{std::tanh(x), 4 * kEps}; };
      const Op ops[] = {
          {[&](const Rows& r, void* y) { r.add(t, n, a.data(), b.data(), y); },
           [](double u, double v) {
             return Expected{u + v, 0};
           }},
          {[&](const Rows& r, void* y) { r.mul(t, n, a.data(), b.data(), y); },
           [](double u, double v) {
             return Expected{u * v, kEps * std::abs(u * v)};
           }},
          {[&](const Rows& r, void* y) { r.scale(t, n, a.data(), 0.3f, y); },
           [](double u, double) {
             return Expected{u * double{0.3f}, kEps * std::abs(u)};
           }},
          {[&](const Rows& r, void* y) { r.relu(t, n, a.data(), y); },
           [](double u, double) {
             return Expected{std::max(u, 0.0), 0};
           }},
          {[&](const Rows& r, void* y) { r.relu_bwd(t, n, a.data(), b.data(), y); },
           [](double u, double v) {
             return Expected{v > 0 ? u : 0, 0};
           }},
          {[&](const Rows& r, void* y) { r.tanh(t, n, a.data(), y); }, tanh_of},
          {[&](const Rows& r, void* y) { r.tanh_bwd(t, n, a.data(), b.data(), y); },
           [](double u, double v) {
             return Expected{u * (1 - v * v), 3 * kEps * std::abs(u) * (1 + v * v)};
           }},
          {[&](const Rows& r, void* y) { r.gelu(t, n, a.data(), y); },
           [=](double u, double) {
             return Expected{u * normal_cdf(u), (8 * kEps + short_form) * std::abs(u)};
           }},
          {[&](const Rows& r, void* y) { r.gelu_bwd(t, n, a.data(), b.data(), y); },
           [=](double u, double v) {
             return Expected{u * (normal_cdf(v) + v * normal_pdf(v)), (10 * kEps + short_form) * std::abs(u)};
           }},
      };
      for (const Op& op : ops) {
        const Tensors got = same_for_all_threads([&](ThreadPool& pool) {
          Tensors out{{t, n}};
          op.run(Rows(pool, isa), out[0].data());
          return out;
        });
        std::vector<Expected> want;
        for (int64_t i = 0; i < n; ++i) want.push_back(op.exact(a[i], b[i]));
        expect_near(got[0], want);
      }
    }
  });
}

// With addresses at the begin of a line and elsewhere, with rows without and with gaps.
TEST(Elementwise, GeluPastTheCachesHasTheSameBits) {
  for_levels([](Isa isa, DType t) {
    Draw draw;
    const int64_t rows = 300, cols = 107, ld = 128;
    const Tensor x(t, rows * ld + 1, draw.in(3));
    for (const Rows::Size s : {Rows::Size{1, rows * ld}, Rows::Size{rows, cols, ld}})
      for (const int64_t first : {0, 1}) {
        const auto run = [&](bool cold) {
          return same_for_all_threads([&](ThreadPool& pool) {
            Tensors y{{t, rows * ld + 1}};
            const size_t skipped = static_cast<size_t>(first) * size_of(t);
            Rows(pool, isa).gelu(t, s, x.data() + skipped, y[0].data() + skipped, cold);
            return y;
          });
        };
        EXPECT_TRUE(run(true)[0] == run(false)[0]);
      }
  });
}

TEST(Elementwise, MayWriteOverItsInput) {
  for_levels([](Isa isa, DType t) {
    const int64_t n = 40037;
    Draw draw;
    ThreadPool pool(2);
    const Rows rows(pool, isa);
    const Tensor x(t, n, draw.in(3));
    Tensor y(t, n), z = x;
    rows.gelu(t, n, x.data(), y.data());
    rows.gelu(t, n, z.data(), z.data());
    EXPECT_TRUE(y == z);
    z = x;
    rows.add(t, n, x.data(), x.data(), y.data());
    rows.add(t, n, z.data(), z.data(), z.data());
    EXPECT_TRUE(y == z);
  });
}

TEST(Elementwise, ReluKeepsNan) {
  ThreadPool pool(1);
  for (Isa isa : available_isas()) {
    float x[3] = {NAN, -1, 2}, y[3];
    Rows(pool, isa).relu(DType::f32, 3, x, y);
    EXPECT_TRUE(std::isnan(y[0]) && y[1] == 0 && y[2] == 2);
  }
}

TEST(Cast, RoundsAsTheScalarRuleDoesForEveryClassOfFloat) {
  ThreadPool pool(1);
  std::vector<float> x = wide_range();
  for (uint32_t u :
       {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x7f7fffffu, 0x7f800001u, 0xffc12345u, 0x00008000u})
    x.push_back(std::bit_cast<float>(u));  // ties, overflow, NaN, denormal
  const int64_t n = static_cast<int64_t>(x.size());
  for (Isa isa : available_isas()) {
    Tensor narrow(DType::bf16, n), wide(DType::f32, n);
    const Rows rows(pool, isa);
    rows.cast(DType::f32, DType::bf16, n, x.data(), narrow.data());
    rows.cast(DType::bf16, DType::f32, n, narrow.data(), wide.data());
    const bool by_instruction = isa == Isa::kAvx512Bf16 || isa == Isa::kAmx;  // to which these are 0
    for (int64_t i = 0; i < n; ++i) {
      const float given = x[static_cast<size_t>(i)];
      const bool is_zero = by_instruction && std::abs(given) < 0x1p-126f;
      const bf16 want = to_bf16(is_zero ? std::copysign(0.f, given) : given);
      ASSERT_EQ(reinterpret_cast<const bf16*>(narrow.data())[i].bits, want.bits) << x[static_cast<size_t>(i)];
      ASSERT_EQ(std::bit_cast<uint32_t>(wide.f32()[i]), uint32_t{want.bits} << 16);
    }
    EXPECT_TRUE(narrow.intact() && wide.intact());
  }
}

TEST(Cast, ReadsAndWritesEveryHalf) {
  ThreadPool pool(1);
  constexpr int64_t kHalves = 1 << 16;
  Tensor halves(DType::f16, kHalves);
  for (int64_t i = 0; i < kHalves; ++i) reinterpret_cast<f16*>(halves.data())[i] = {static_cast<uint16_t>(i)};
  for (Isa isa : available_isas()) {
    Tensor wide(DType::f32, kHalves), again(DType::f16, kHalves);
    const Rows rows(pool, isa);
    rows.cast(DType::f16, DType::f32, kHalves, halves.data(), wide.data());
    rows.cast(DType::f32, DType::f16, kHalves, wide.data(), again.data());
    for (int64_t i = 0; i < kHalves; ++i) {
      const f16 half = reinterpret_cast<const f16*>(halves.data())[i];
      const f16 back = reinterpret_cast<const f16*>(again.data())[i];
      if ((half.bits & 0x7fff) > 0x7c00) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(again[i])) << name_of(isa) << " " << i;
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(wide.f32()[i]), std::bit_cast<uint32_t>(to_float(half)));
      ASSERT_EQ(back.bits, half.bits) << name_of(isa);
    }
  }
}

// Halfway between two halves, a little to either side, and the ends of the range.
TEST(Cast, RoundsToTheNearestEvenHalf) {
  ThreadPool pool(1);
  std::vector<float> x = wide_range();
  for (uint16_t bits = 0; bits < 0x7c00; bits = static_cast<uint16_t>(bits + 1 + bits / 61)) {
    const float low = to_float(f16{bits});
    const float high = bits == 0x7bff ? 65536.f : to_float(f16{static_cast<uint16_t>(bits + 1)});
    const float middle = (low + high) / 2;
    for (float near : {middle, std::nextafter(middle, 0.f), std::nextafter(middle, 1e9f)}) {
      x.push_back(near);
      x.push_back(-near);
    }
  }
  for (float special : {65504.f, 65519.99f, 65520.f, 1e38f, 0x1p-25f, 0x1.000002p-25f, 0x1p-140f})
    x.push_back(special);
  x.push_back(INFINITY);
  const int64_t n = static_cast<int64_t>(x.size());
  for (Isa isa : available_isas()) {
    Tensor narrow(DType::f16, n);
    Rows(pool, isa).cast(DType::f32, DType::f16, n, x.data(), narrow.data());
    for (int64_t i = 0; i < n; ++i) {
      const float value = x[static_cast<size_t>(i)];
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(narrow[i]));
        continue;
      }
      ASSERT_EQ(reinterpret_cast<const f16*>(narrow.data())[i].bits, to_f16(value).bits)
          << name_of(isa) << " " << value;
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
