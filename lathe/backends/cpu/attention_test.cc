#include "lathe/backends/cpu/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/backends/cpu/rows.h"
#include "lathe/backends/cpu/rows_testing.h"
#include "lathe/core/philox.h"

namespace lathe::cpu {
namespace {

using namespace testing;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;

struct Shape {
  const char* name;
  int64_t heads, width;
  std::vector<int32_t> lengths;
  int64_t rest = 0;  ///< tokens after the last sequence
  double p = 0, scale = 0, size = 2;
  int64_t window = 0, group = 1;
  bool causal = false;
};

std::vector<Shape> shapes() {
  std::vector<int32_t> upto40;
  for (int32_t n = 1; n <= 40; ++n) upto40.push_back(n);
  return {{"one token", 1, 1, {1}},
          {"no sequence", 2, 8, {}, 3},
          {"only empty sequences", 2, 8, {0, 0}, 1, 0.1},
          {"empty between", 2, 16, {0, 3, 0, 5, 0}, 2},
          {"all short lengths", 2, 32, upto40, 5, 0.1},
          {"width 1", 3, 1, {7, 2}},
          {"width 5, scale", 2, 5, {33, 64, 65}, 0, 0, 0.3},
          {"width 64", 2, 64, {300, 55, 128}, 7, 0.1},
          {"width 80", 1, 80, {63}},
          {"width 256", 1, 256, {66, 31}, 1, 0.5},
          {"all dropped", 1, 16, {19}, 0, 1.0},
          {"more than a block of keys", 1, 8, {1030}, 3, 0.1},
          {"negative scale", 1, 32, {35}, 0, 0, -0.4},
          {"large scores", 2, 32, {40, 17}, 0, 0.1, 0, 30},
          {"window of a token", 2, 16, {40, 1, 130}, 0, 0.1, 0, 2, 1},
          {"window over several strips", 1, 64, {260, 33, 64}, 1, 0.1, 0, 2, 40},
          {"window that groups of queries share a block for", 1, 8, {1030, 90}, 2, 0.1, 0, 2, 64},
          {"window over several blocks of keys", 1, 8, {1100}, 0, 0.1, -0.4, 2, 300},
          {"heads 6 of 2", 6, 16, {40, 1, 0, 130}, 2, 0.1, 0, 2, 0, 3},
          {"heads 2 of 1, several blocks of keys", 2, 8, {530}, 3, 0.1, 0, 2, 0, 2},
          {"causal", 2, 64, {1, 33, 290}, 1, 0.1, 0, 2, 0, 1, true},
          {"causal, all short lengths", 2, 32, upto40, 5, 0.1, 0, 2, 0, 2, true},
          {"causal, width 256, negative scale", 2, 256, {66, 31}, 0, 0, -0.1, 2, 0, 2, true},
          {"causal, several blocks of keys", 2, 8, {540, 20}, 0, 0.1, 0, 2, 0, 2, true},
          {"causal, window, several blocks of keys", 2, 8, {700}, 2, 0.1, 0, 2, 64, 2, true},
          {"causal, window of a token", 3, 16, {40, 1, 130}, 0, 0.1, 0, 2, 1, 3, true}};
}

/// A drawn case with its packed tensors.  q, k and v are interleaved, as one product gives them.
struct Case {
  const Shape& shape;
  DType t;
  int64_t tokens, width, kv_width, qkv_stride;  ///< columns of q, and of k and v
  std::vector<int32_t> cu{0}, samples;
  Tensor qkv, dout;
  Attention a;

  Case(const Shape& s, DType type)
      : shape(s),
        t(type),
        tokens(count(s)),
        width(s.heads * s.width),
        kv_width(width / s.group),
        qkv_stride(width + 2 * kv_width),
        qkv(type, tokens * qkv_stride),
        dout(type, tokens * width) {
    Draw draw(11);
    for (int32_t n : s.lengths) cu.push_back(cu.back() + n);
    for (size_t b = 0; b < s.lengths.size(); ++b) samples.push_back(draw.below(100000));
    for (int64_t i = 0; i < cu.back() * qkv_stride; ++i)  // the tokens after it stay NaN
      qkv.set(i, static_cast<float>(draw.uniform(-s.size, s.size)));
    for (int64_t i = 0; i < cu.back() * width; ++i) dout.set(i, static_cast<float>(draw.uniform(-1, 1)));
    a.t = t;
    a.tokens = tokens;
    a.sequences = static_cast<int64_t>(s.lengths.size());
    a.heads = s.heads;
    a.kv_heads = s.heads / s.group;
    a.width = s.width;
    a.causal = s.causal;
    a.qkv_stride = qkv_stride;
    a.scale = static_cast<float>(s.scale);
    a.window = s.window;
    a.cu = cu.data();
    a.sample_ids = samples.data();
    a.dropout = dropout_rule(1234, 77, dropout_site("attention"), s.p);
  }
  static int64_t count(const Shape& s) {
    int64_t n = s.rest;
    for (int32_t length : s.lengths) n += length;
    return n;
  }
  int64_t longest() const {
    return shape.lengths.empty() ? 0 : *std::max_element(shape.lengths.begin(), shape.lengths.end());
  }
  /// Where q (0), k or v begins in a row, and how many columns it has.
  int64_t place(int which) const { return which == 0 ? 0 : width + (which - 1) * kv_width; }
  int64_t columns(int which) const { return which == 0 ? width : kv_width; }
  const std::byte* input(int which) const {
    return qkv.data() + static_cast<size_t>(place(which)) * size_of(t);
  }
  double scale() const {
    return shape.scale == 0 ? 1 / std::sqrt(static_cast<double>(shape.width)) : double{a.scale};
  }
  double at(int which, int64_t token, int64_t h, int64_t d) const {
    return qkv[token * qkv_stride + place(which) + (which == 0 ? h : h / shape.group) * shape.width + d];
  }
  int64_t index(int64_t token, int64_t h, int64_t d) const { return token * width + h * shape.width + d; }
  int64_t kv_index(int64_t token, int64_t h, int64_t d) const {
    return token * kv_width + h / shape.group * shape.width + d;
  }
  bool sees(int64_t query, int64_t key) const {
    if (shape.causal && key > query) return false;
    return shape.window == 0 || std::abs(query - key) <= shape.window;
  }
  double mask(size_t b, int64_t h, int64_t query, int64_t key) const {
    const auto words = philox({static_cast<uint32_t>(key / 8), static_cast<uint32_t>(h << 16 | query),
                               static_cast<uint32_t>(samples[b]), a.dropout.site},
                              a.dropout.seed, a.dropout.step);
    const bool kept = dropout_bits(words, static_cast<int>(key % 8)) >= a.dropout.threshold;
    return kept ? double{a.dropout.scale} : 0;
  }
};

/// The double reference.  `error` of a score: how far f32 arithmetic may be off.
struct Exact {
  std::vector<Expected> out, lse, dq, dk, dv;
};

template <typename F>
void for_rows(const Case& c, F f) {
  for (size_t b = 0; b + 1 < c.cu.size(); ++b)
    for (int64_t h = 0; h < c.shape.heads; ++h)
      for (int64_t i = 0; i < c.cu[b + 1] - c.cu[b]; ++i) f(b, h, i);
}

/// The relative error of a probability, or of the gradient of a score, as operand of a product: the levels
/// with products of bf16 round it to bf16; its own rounding adds to that of the result.
double operand_rounding(Isa isa, DType t) {
  const bool rounds = t == DType::bf16 && (isa == Isa::kAvx512Bf16 || isa == Isa::kAmx);
  return rounds ? 0x1p-8 * (1 + 0x1p-8) : 0;
}

Numbers numbers(const Tensor& tensor) {
  Numbers all(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = tensor[static_cast<int64_t>(i)];
  return all;
}

/// `stored`, `stored_lse`: what the forward pass wrote, which the backward pass reads.
Exact exact(const Case& c, const Tensor& stored, const Tensor& stored_lse, double rounding) {
  const size_t n = static_cast<size_t>(c.tokens * c.width);
  const Numbers qkv = numbers(c.qkv), dout = numbers(c.dout), out = numbers(stored);
  const auto row = [&](int which, int64_t token, int64_t h) {
    return qkv.data() + token * c.qkv_stride + c.place(which) +
           (which == 0 ? h : h / c.shape.group) * c.shape.width;
  };
  const auto add = [](Expected& sum, double term, double off) {
    sum.value += term;
    sum.slack += std::abs(off);
  };
  const double scale = c.scale(), score_eps = kEps * 4 * std::sqrt(static_cast<double>(c.shape.width));
  Exact e;
  e.out = e.dq = std::vector<Expected>(n, {0, 0});
  e.dk = e.dv = std::vector<Expected>(static_cast<size_t>(c.tokens * c.kv_width), {0, 0});
  e.lse = std::vector<Expected>(static_cast<size_t>(c.tokens * c.shape.heads), {0, 0});
  for_rows(c, [&](size_t b, int64_t h, int64_t i) {
    const int64_t length = c.cu[b + 1] - c.cu[b], q = c.cu[b] + i, width = c.shape.width;
    const double depth = 12 + static_cast<double>(std::max(length * c.shape.group, width));
    Numbers score(static_cast<size_t>(length)), error = score, dp = score, dp_size = score;
    double largest = -INFINITY, sum = 0, delta = 0, delta_size = 0;
    const double *x = row(0, q, h), *dy = dout.data() + c.index(q, h, 0), *y = out.data() + c.index(q, h, 0);
    for (int64_t j = 0; j < length; ++j) {
      const size_t s = static_cast<size_t>(j);
      const double *k = row(1, c.cu[b] + j, h), *v = row(2, c.cu[b] + j, h);
      for (int64_t d = 0; d < width; ++d) {
        const double term = x[d] * k[d] * scale, g = dy[d] * v[d];
        score[s] += term;
        error[s] += std::abs(term) * score_eps;
        dp[s] += g;
        dp_size[s] += std::abs(g);
      }
      if (!c.sees(i, j)) score[s] = -INFINITY;
      largest = std::max(largest, score[s]);
    }
    double worst = 0;
    for (size_t s = 0; s < score.size(); ++s) sum += std::exp(score[s] - largest);
    const double lse = largest + std::log(sum);
    for (size_t s = 0; s < score.size(); ++s) worst += error[s] * std::exp(score[s] - lse);
    const size_t lse_at = static_cast<size_t>(h * c.tokens + q);
    e.lse[lse_at] = {lse, worst + depth * kEps};
    for (int64_t d = 0; d < width; ++d) {
      const double g = dy[d] * y[d];
      delta += g;
      delta_size += std::abs(g);
    }
    for (int64_t j = 0; j < length; ++j) {
      const size_t s = static_cast<size_t>(j);
      if (!c.sees(i, j)) continue;
      const double p = std::exp(score[s] - lse), mask = c.mask(b, h, i, j);
      // relative error of a probability: of its score, of the others, of exp and of the sum
      const double off = error[s] + worst + kEps * (depth + std::abs(score[s] - largest));
      const double again = std::exp(score[s] - stored_lse[h * c.tokens + q]);
      const double again_off = error[s] + kEps * (4 + 2 * std::abs(score[s]) + std::abs(lse));
      const double ds = again * (dp[s] * mask - delta);
      const double ds_off = again * (again_off * std::abs(dp[s] * mask - delta) +
                                     kEps * depth * (dp_size[s] * mask + delta_size));
      const double *k = row(1, c.cu[b] + j, h), *v = row(2, c.cu[b] + j, h), fine = kEps * depth + rounding;
      const double of_out = p * mask, of_out_off = (off + fine) * of_out;
      const double of_score = scale * ds, of_score_off = std::abs(scale) * (ds_off + fine * std::abs(ds));
      const double of_v = again * mask, of_v_off = (again_off + fine) * of_v;
      for (int64_t d = 0; d < width; ++d) {
        const size_t from = static_cast<size_t>(c.index(q, h, d));
        const size_t to = static_cast<size_t>(c.kv_index(c.cu[b] + j, h, d));
        add(e.out[from], of_out * v[d], of_out_off * v[d]);
        add(e.dq[from], of_score * k[d], of_score_off * k[d]);
        add(e.dk[to], of_score * x[d], of_score_off * x[d]);
        add(e.dv[to], of_v * dy[d], of_v_off * dy[d]);
      }
    }
  });
  return e;
}

Tensors run_forward(const Case& c, ThreadPool& pool, Isa isa) {
  Tensors out{{c.t, c.tokens * c.width}, {DType::f32, c.tokens * c.shape.heads}};
  Workspace workspace(attention_workspace_bytes(isa, c.t, c.longest(), c.shape.width, pool.size()));
  attention(pool, isa, c.a, c.input(0), c.input(1), c.input(2), out[0].data(), out[1].f32(),
            workspace.data());
  return out;
}

/// dq [N, H · D], dk, dv [N, K · D]
Tensors run_backward(const Case& c, const Tensors& forward, ThreadPool& pool, Isa isa) {
  Tensor d(c.t, c.tokens * c.qkv_stride);
  const auto at = [&](int which) { return d.data() + static_cast<size_t>(c.place(which)) * size_of(c.t); };
  Workspace workspace(
      attention_bwd_workspace_bytes(isa, c.t, c.longest(), c.shape.width, c.shape.group, pool.size()));
  attention_bwd(pool, isa, c.a, c.dout.data(), c.input(0), c.input(1), c.input(2), forward[0].data(),
                forward[1].f32(), at(0), at(1), at(2), workspace.data());
  EXPECT_TRUE(d.intact());
  Tensors out;
  for (int which = 0; which < 3; ++which) {
    int64_t i = 0;
    const int64_t columns = c.columns(which);
    out.emplace_back(c.t, c.tokens * columns, [&] {
      const double x = d[i / columns * c.qkv_stride + c.place(which) + i % columns];
      ++i;
      return x;
    });
  }
  return out;
}

TEST(Attention, IsThatOfDoubleForwardAndBackward) {
  const std::vector<Shape> all = shapes();
  for_levels(attention_kernels, [&](Isa isa, DType t) {
    for (const Shape& shape : all) {
      SCOPED_TRACE(shape.name);
      const Case c(shape, t);
      const Tensors forward =
          same_for_all_threads([&](ThreadPool& pool) { return run_forward(c, pool, isa); });
      const Tensors backward =
          same_for_all_threads([&](ThreadPool& pool) { return run_backward(c, forward, pool, isa); });
      const Exact want = exact(c, forward[0], forward[1], operand_rounding(isa, t));
      expect_near(forward[0], want.out);
      expect_near(forward[1], want.lse);
      expect_near(backward[0], want.dq);
      expect_near(backward[1], want.dk);
      expect_near(backward[2], want.dv);
    }
  });
}

// Results where no cache holds them, at the beginning of a line and elsewhere, and of widths that fill lines
// and do not.
TEST(Attention, PastTheCachesGivesTheSameBits) {
  const Shape widths[] = {{"lines", 2, 64, {70, 16, 9, 33}, 3, 0.1}, {"parts", 3, 40, {70, 16, 9}, 1, 0.1}};
  for_levels(attention_kernels, [&](Isa isa, DType t) {
    for (const Shape& shape : widths)
      for (const size_t skew : {size_t{0}, size_of(t)}) {
        SCOPED_TRACE(fmt::format("{}, {} bytes past a line", shape.name, skew));
        Case c(shape, t);
        ThreadPool pool(3);
        const Tensors forward = run_forward(c, pool, isa), backward = run_backward(c, forward, pool, isa);
        c.a.results_are_cold = true;
        const size_t bytes = static_cast<size_t>(c.tokens * c.width) * size_of(t);
        Workspace out(bytes + skew), d(3 * bytes + skew);
        std::vector<float> lse(static_cast<size_t>(c.tokens * shape.heads));
        Workspace space(attention_workspace_bytes(isa, t, c.longest(), shape.width, pool.size()));
        Workspace space_bwd(attention_bwd_workspace_bytes(isa, t, c.longest(), shape.width, 1, pool.size()));
        std::byte* const y = static_cast<std::byte*>(out.data()) + skew;
        std::byte* const dqkv = static_cast<std::byte*>(d.data()) + skew;
        const auto part = [&](int which) { return dqkv + static_cast<size_t>(which * c.width) * size_of(t); };
        attention(pool, isa, c.a, c.input(0), c.input(1), c.input(2), y, lse.data(), space.data());
        attention_bwd(pool, isa, c.a, c.dout.data(), c.input(0), c.input(1), c.input(2), y, lse.data(),
                      part(0), part(1), part(2), space_bwd.data());
        EXPECT_EQ(std::memcmp(y, forward[0].data(), bytes), 0);
        const size_t row = static_cast<size_t>(c.width) * size_of(t);
        for (int which = 0; which < 3; ++which)
          for (size_t token = 0; token < static_cast<size_t>(c.tokens); ++token)
            EXPECT_EQ(std::memcmp(part(which) + 3 * token * row,
                                  backward[static_cast<size_t>(which)].data() + token * row, row),
                      0)
                << "gradient " << which << ", token " << token;
      }
  });
}

TEST(Attention, ASequenceHasTheSameBitsBesideALongerOne) {
  for (const int64_t window : {0, 64, -1}) {
    const bool causal = window < 0;
    const Shape two{"", 2, 16, {400, 700}, 0, 0.1, 0, 2, causal ? 0 : window, 1, causal};
    const Shape one{"", 2, 16, {400}, 0, 0.1, 0, 2, causal ? 0 : window, 1, causal};
    for_levels(attention_kernels, [&](Isa isa, DType t) {
      const Case both(two, t);
      Case alone(one, t);
      alone.samples[0] = both.samples[0];
      for (int64_t i = 0; i < alone.qkv.size(); ++i) alone.qkv.set(i, static_cast<float>(both.qkv[i]));
      for (int64_t i = 0; i < alone.dout.size(); ++i) alone.dout.set(i, static_cast<float>(both.dout[i]));
      ThreadPool pool(2);
      const Tensors wanted = run_forward(alone, pool, isa), found = run_forward(both, pool, isa);
      const Tensors wanted_bwd = run_backward(alone, wanted, pool, isa),
                    found_bwd = run_backward(both, found, pool, isa);
      for (int64_t i = 0; i < alone.tokens * alone.width; ++i) {
        ASSERT_EQ(found[0][i], wanted[0][i]) << i;
        for (size_t which = 0; which < 3; ++which)
          ASSERT_EQ(found_bwd[which][i], wanted_bwd[which][i]) << which << ' ' << i;
      }
    });
  }
}

/// Σ dout ∘ out in double as a function of qkv.
double objective(const Case& c) {
  double total = 0;
  for_rows(c, [&](size_t b, int64_t h, int64_t i) {
    const int64_t length = c.cu[b + 1] - c.cu[b], q = c.cu[b] + i;
    Numbers score(static_cast<size_t>(length));
    double sum = 0, weighted = 0;
    for (int64_t j = 0; j < length; ++j) {
      double s = 0, g = 0;
      for (int64_t d = 0; d < c.shape.width; ++d) {
        s += c.at(0, q, h, d) * c.at(1, c.cu[b] + j, h, d) * c.scale();
        g += c.dout[c.index(q, h, d)] * c.at(2, c.cu[b] + j, h, d);
      }
      sum += std::exp(s);
      weighted += std::exp(s) * c.mask(b, h, i, j) * g;
    }
    total += weighted / sum;
  });
  return total;
}

TEST(Attention, BackwardIsTheDerivativeOfForward) {
  const Shape shape{"", 2, 6, {9, 1, 20}, 2, 0.25, 0, 1};
  Case c(shape, DType::f32);
  for (Isa isa : available_isas()) {
    ThreadPool pool(1);
    const Tensors gradient = run_backward(c, run_forward(c, pool, isa), pool, isa);
    Draw draw(5);
    for (int trial = 0; trial < 60; ++trial) {
      const int which = trial % 3;
      const int64_t token = draw.below(c.cu.back()), column = draw.below(static_cast<int32_t>(c.width));
      const int64_t at = token * c.qkv_stride + which * c.width + column;
      const float x = static_cast<float>(c.qkv[at]), up = x + 1e-3f, down = x - 1e-3f;
      c.qkv.set(at, up);
      double difference = objective(c);
      c.qkv.set(at, down);
      difference = (difference - objective(c)) / (double{up} - double{down});
      c.qkv.set(at, x);
      EXPECT_NEAR(gradient[static_cast<size_t>(which)][token * c.width + column], difference, 1e-5);
    }
  }
}

// The backward pass grows beyond a block of keys only by f32 gradients of queries.
TEST(Attention, WorkspaceStopsGrowingWithTheSequence) {
  constexpr size_t kLong = size_t{1} << 20;
  for_levels(attention_kernels, [&](Isa isa, DType t) {
    for (int64_t width : {16, 64, 80}) {
      const size_t block = attention_workspace_bytes(isa, t, 513, width, 1);
      const size_t block_bwd = attention_bwd_workspace_bytes(isa, t, 512, width, 1, 1);
      EXPECT_LT(attention_workspace_bytes(isa, t, 128, width, 1), block);
      EXPECT_LT(attention_bwd_workspace_bytes(isa, t, 128, width, 1, 1), block_bwd);
      EXPECT_EQ(attention_workspace_bytes(isa, t, kLong, width, 1), block);
      for (const size_t group : {1, 4})
        EXPECT_LE(attention_bwd_workspace_bytes(isa, t, kLong, width, static_cast<int64_t>(group), 1),
                  block_bwd + group * kLong * static_cast<size_t>((width + 31) / 32 * 32) * sizeof(float));
      EXPECT_LE(block_bwd, size_t{2} << 20) << "more than a core's cache";
    }
  });
}

TEST(Attention, LongSequenceNeedsNoSquareOfMemory) {
  // uniform keys: every probability is 1 / length, so out is the mean of v
  const int64_t length = 8192, width = 16;
  const std::vector<int32_t> cu{0, static_cast<int32_t>(length)};
  Draw draw;
  const Tensor q(DType::f32, length * width, draw.in(1)), k(DType::f32, length * width, [] { return 0.5; });
  const Tensor v(DType::f32, length * width, draw.in(1));
  Numbers mean(static_cast<size_t>(width));
  for (int64_t i = 0; i < length * width; ++i)
    mean[static_cast<size_t>(i % width)] += v[i] / static_cast<double>(length);
  Attention a;
  a.tokens = length;
  a.sequences = a.heads = 1;
  a.width = width;
  a.cu = cu.data();
  const Isa isa = available_isas().back();
  ThreadPool pool(2);
  Tensor out(DType::f32, length * width), lse(DType::f32, length);
  const size_t bytes = attention_workspace_bytes(isa, DType::f32, length, width, pool.size());
  EXPECT_LT(bytes, size_t{16} << 20);
  EXPECT_LT(attention_bwd_workspace_bytes(isa, DType::f32, length, width, 1, pool.size()), size_t{32} << 20);
  Workspace workspace(bytes);
  attention(pool, isa, a, q.data(), k.data(), v.data(), out.data(), lse.f32(), workspace.data());
  for (int64_t i = 0; i < length * width; ++i)
    ASSERT_NEAR(out[i], mean[static_cast<size_t>(i % width)], 8192 * kEps * 0.5);
  EXPECT_TRUE(out.intact() && lse.intact());
}

TEST(Attention, NanStaysInItsSequence) {
  const Shape shape{"", 1, 8, {5, 6}};
  Case c(shape, DType::f32);
  c.qkv.set(2 * c.qkv_stride, NAN);  // q of token 2
  for (Isa isa : available_isas()) {
    ThreadPool pool(1);
    const Tensors out = run_forward(c, pool, isa);
    for (int64_t token = 0; token < c.tokens; ++token)
      for (int64_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(out[0][token * 8 + d]), token == 2) << token;
  }
}

}  // namespace
}  // namespace lathe::cpu
