#include "lathe/backends/cpu/first_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/philox.h"

// Both passes are a list of jobs.  Products with the weights go head by head, what sees the tokens goes by a
// sequence and a few heads, and the gradient of the tokens goes token by token.

namespace lathe::cpu {
namespace {

/// A workspace handed out piece by piece; without memory it counts.
class Workspace {
 public:
  explicit Workspace(void* memory) : memory_(static_cast<std::byte*>(memory)) {}
  template <typename T = std::byte>
  T* take(int64_t count) {
    std::byte* const piece = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  size_t bytes_ = 0;
};

enum Part { kQuery, kKey, kValue };

/// Heads that look at the tokens of a sequence together: they share what is read.
constexpr int64_t kTogether = 4;
/// Products of a head with its weights are cut into so many, as heads are few.
constexpr int64_t kSlices = 2;

/// What both passes share.
class Pass {
 public:
  Pass(Isa isa, const FirstAttention& attention, int threads, void* workspace)
      : isa_(isa),
        a_(attention),
        width_(a_.columns / a_.heads),
        element_(static_cast<int64_t>(size_of(a_.t))),
        kernels_(of(row_kernels(isa), a_.t)),
        exponentials_(row_kernels(isa)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(width_)))),
        pieces_(workspace) {
    first_ = pieces_.take(a_.sequences * a_.columns * element_);
    make_room(to_rows(nullptr, 0, nullptr, nullptr, 0), kSlices);
    make_room(from_rows(nullptr, 0, nullptr, nullptr, 0), kSlices);
    make_room(whole(nullptr, nullptr, true, nullptr, 0), slices());
    make_room(weight_gradient(nullptr, 0, nullptr, 0, nullptr), 1);
    own_ = pieces_.take(static_cast<int64_t>(own_bytes_) * threads);
  }
  size_t bytes() const { return pieces_.bytes(); }

 protected:
  int64_t length(int64_t sequence) const { return a_.cu[sequence + 1] - a_.cu[sequence]; }
  const std::byte* tokens_of(const void* x, int64_t sequence) const {
    return at(x, a_.cu[sequence] * a_.ld, a_.t);
  }

  /// The first tokens' rows of x; 0 for empty sequences.
  void gather_first(const void* x) const {
    const auto bytes = static_cast<size_t>(a_.columns * element_);
    for (int64_t i = 0; i < a_.sequences; ++i) {
      std::byte* const to = first_ + static_cast<size_t>(i) * bytes;
      if (length(i) > 0)
        std::memcpy(to, tokens_of(x, i), bytes);
      else
        std::memset(to, 0, bytes);
    }
  }

  /// f(item, part) for all items, by all threads.
  template <typename F>
  static void for_each(ThreadPool& pool, int64_t items, F f) {
    pool.deal(items);
    pool.run([&](int part, int) {
      for (long i; (i = pool.next_item(part)) >= 0;) f(i, part);
    });
  }

  /// f(sequence, first head, how many) for all groups of heads of all sequences.
  template <typename F>
  void for_each_group(ThreadPool& pool, F f) const {
    const int64_t groups = ceil_div(a_.heads, kTogether);
    for_each(pool, a_.sequences * groups, [&](int64_t i, int) {
      const int64_t first = i % groups * kTogether;
      f(i / groups, first, std::min(kTogether, a_.heads - first));
    });
  }

  // Products of one head, on rows of sequences.  Rows lie `ld` elements apart; in what has a row of C for
  // each head those of one head are H · C apart.
  const float* weight(const float* w, Part part, int64_t head) const {
    return w + (part * a_.columns + head * width_) * a_.columns;
  }
  int64_t of_head(int64_t head) const { return head * width_; }
  int64_t row_of_head(int64_t head) const { return head * a_.columns; }
  int64_t rows_ld() const { return a_.heads * a_.columns; }

  /// c [B, C] = a [B, D] · w [D, C]
  Gemm to_rows(const void* a, int64_t lda, const float* w, float* c, int64_t ldc) const {
    Gemm g;
    g.m = a_.sequences, g.n = a_.columns, g.k = width_;
    g.a_type = a_.t, g.a = a, g.lda = lda;
    g.b = w, g.ldb = a_.columns;
    g.c = c, g.ldc = ldc;
    return g;
  }
  /// c [B, D] = a [B, C] · w [D, C]ᵀ
  Gemm from_rows(const void* a, int64_t lda, const float* w, void* c, int64_t ldc) const {
    Gemm g;
    g.m = a_.sequences, g.n = width_, g.k = a_.columns;
    g.a_type = a_.t, g.a = a, g.lda = lda;
    g.b = w, g.b_transposed = true, g.ldb = a_.columns;
    g.c = c, g.ldc = ldc;
    return g;
  }
  /// c [B, C] = a [B, C] · w [C, C], or wᵀ
  Gemm whole(const void* a, const float* w, bool transposed, void* c, int64_t ldc) const {
    Gemm g = from_rows(a, a_.columns, w, c, ldc);
    g.n = a_.columns, g.b_transposed = transposed;
    return g;
  }
  int64_t slices() const { return a_.heads * kSlices; }
  /// Part `index` of `count` of the columns of c; may be empty.
  static Share columns_of(const Gemm& g, int64_t index, int64_t count) {
    constexpr int64_t kPanel = 32;  // which no kernel's is beyond
    const Share panels = share(ceil_div(g.n, kPanel), static_cast<int>(index), static_cast<int>(count));
    return {std::min(panels.begin * kPanel, g.n), std::min(panels.end * kPanel, g.n)};
  }
  static Gemm slice(Gemm g, int64_t index, int64_t count) {
    const Share columns = columns_of(g, index, count);
    g.n = columns.end - columns.begin;
    g.b = static_cast<const float*>(g.b) + columns.begin * (g.b_transposed ? g.ldb : 1);
    g.c = at(g.c, columns.begin, g.c_type);
    if (g.bias != nullptr) g.bias += columns.begin;
    return g;
  }
  /// c [D, C] = a [B, D]ᵀ · b [B, C]
  Gemm weight_gradient(const void* a, int64_t lda, const void* b, int64_t ldb, void* c) const {
    Gemm g;
    g.m = width_, g.n = a_.columns, g.k = a_.sequences;
    g.a_type = g.b_type = a_.t, g.a = a, g.lda = lda, g.a_transposed = true;
    g.b = b, g.ldb = ldb;
    g.c = c, g.ldc = a_.columns;
    return g;
  }
  float value(const void* x, int64_t i) const {
    float y;
    kernels_.to_f32(1, at(x, i, a_.t), &y);
    return y;
  }
  void multiply(const Gemm& g, int part) const {
    if (g.n > 0) gemm_single_thread(isa_, g, own_ + static_cast<size_t>(part) * own_bytes_);
  }

  /// f(key, what dropout multiplies the probability of that key with)
  template <typename F>
  void for_masks(int64_t sequence, int64_t head, int64_t keys, F f) const {
    const DropoutRule& rule = a_.dropout;
    if (rule.threshold == 0)
      for (int64_t j = 0; j < keys; ++j) f(j, 1.f);
    constexpr int64_t kDecided = 8;  // by one call
    for (int64_t first = 0; rule.threshold > 0 && first < keys; first += kDecided) {
      const auto words = philox({static_cast<uint32_t>(first / kDecided), static_cast<uint32_t>(head << 16),
                                 static_cast<uint32_t>(a_.sample_ids[sequence]), rule.site},
                                rule.seed, rule.step);
      for (int64_t j = first; j < std::min(first + kDecided, keys); ++j)
        f(j, dropout_bits(words, static_cast<int>(j - first)) < rule.threshold ? 0 : rule.scale);
    }
  }

  const Isa isa_;
  const FirstAttention& a_;
  const int64_t width_, element_;
  const StorageKernels& kernels_;
  const RowKernels& exponentials_;
  const float scale_;
  Workspace pieces_;
  std::byte* first_;  // [B, C]

 private:
  /// For all slices of such a product.
  void make_room(Gemm g, int64_t count) {
    const Gemm whole = g;
    for (int64_t i = 0; i < count; ++i) {
      const Share columns = columns_of(whole, i, count);
      g.n = columns.end - columns.begin;
      if (g.n > 0) own_bytes_ = std::max(own_bytes_, (gemm_workspace_bytes(isa_, g, 1) + 63) / 64 * 64);
    }
  }

  std::byte* own_;  // of each thread, for its products
  size_t own_bytes_ = 0;
};

class Forward : Pass {
 public:
  Forward(Isa isa, const FirstAttention& attention, int threads, void* workspace)
      : Pass(isa, attention, threads, workspace) {
    kept_ = pieces_.take<float>(a_.heads * a_.tokens);
    sums_ = pieces_.take<float>(a_.sequences * a_.heads);
    seen_ = pieces_.take<float>(a_.sequences * rows_ld());
    y_ = pieces_.take<float>(a_.sequences * a_.columns);
  }
  using Pass::bytes;

  void run(ThreadPool& pool, const void* x, const float* w, const float* b,
           const FirstAttentionResults& out) {
    gather_first(x);
    for_each(pool, slices(), [&](int64_t i, int part) {
      Gemm g = whole(first_, w, true, out.q, a_.columns);
      g.c_type = a_.t, g.bias = b;
      multiply(slice(g, i, slices()), part);
    });
    for (int64_t i = 0; i < a_.sequences; ++i)
      if (length(i) == 0)
        std::memset(at(out.q, i * a_.columns, a_.t), 0, static_cast<size_t>(a_.columns * element_));
    for_each(pool, slices(), [&](int64_t i, int part) {
      const int64_t h = i / kSlices;
      multiply(slice(to_rows(at(out.q, of_head(h), a_.t), a_.columns, weight(w, kKey, h),
                             out.sought + row_of_head(h), rows_ld()),
                     i % kSlices, kSlices),
               part);
    });
    for_each_group(pool, [&](int64_t i, int64_t head, int64_t heads) { look(i, head, heads, x, out); });
    for (int64_t h = 0; h < a_.heads; ++h)
      std::fill(out.p + h * a_.tokens + a_.cu[a_.sequences], out.p + (h + 1) * a_.tokens, 0.f);
    for_each(pool, slices(), [&](int64_t i, int part) { values(i / kSlices, i % kSlices, w, b, out, part); });
  }

 private:
  /// Scores, probabilities, and the sum of tokens that each head sees.
  void look(int64_t i, int64_t head, int64_t heads, const void* xs, const FirstAttentionResults& out) {
    const int64_t keys = length(i), columns = a_.columns, rows = (i * a_.heads + head) * columns;
    const std::byte* const x = tokens_of(xs, i);
    float *const scores = out.p + head * a_.tokens + a_.cu[i], *const kept = kept_ + (scores - out.p);
    kernels_.dots(heads, keys, columns, a_.ld, out.sought + rows, x, scores, a_.tokens);
    for (int64_t h = 0; h < heads && keys > 0; ++h) {
      float *const p = scores + h * a_.tokens, *const of_head = kept + h * a_.tokens;
      for (int64_t j = 0; j < keys; ++j) p[j] *= scale_;
      exponentials_.softmax_bwd(keys, 1, p, exponentials_.log_sum_exp(keys, 1, p), 1, p);
      double sum = 0;
      for_masks(i, head + h, keys, [&](int64_t j, float mask) { sum += of_head[j] = mask * p[j]; });
      sums_[i * a_.heads + head + h] = static_cast<float>(sum);
    }
    kernels_.weighted_sums(heads, keys, columns, a_.ld, kept, a_.tokens, x, seen_ + rows);
    kernels_.from_f32(heads * columns, seen_ + rows, at(out.seen, rows, a_.t));
  }
  void values(int64_t h, int64_t index, const float* w, const float* b, const FirstAttentionResults& out,
              int part) {
    Gemm g = from_rows(at(out.seen, row_of_head(h), a_.t), rows_ld(), weight(w, kValue, h), y_ + of_head(h),
                       a_.columns);
    g.bias = b + kValue * a_.columns + of_head(h);
    g = slice(g, index, kSlices);
    const float* const bias = std::exchange(g.bias, nullptr);
    multiply(g, part);
    for (int64_t i = 0; i < a_.sequences; ++i) {
      float* const y = static_cast<float*>(g.c) + i * a_.columns;
      const float sum = length(i) == 0 ? 0 : sums_[i * a_.heads + h];
      for (int64_t d = 0; d < g.n; ++d) y[d] += sum * bias[d];
      kernels_.from_f32(g.n, y, at(out.y, y - y_, a_.t));
    }
  }

  float *kept_, *sums_, *seen_, *y_;  // [H, N]: p with dropout; [B, H]: its sums; [B, H, C]; [B, C]
};

class Backward : Pass {
 public:
  Backward(Isa isa, const FirstAttention& attention, int threads, void* workspace)
      : Pass(isa, attention, threads, workspace), mates_(2 * a_.heads + 1) {
    vectors_ = pieces_.take<float>(a_.sequences * mates_ * a_.columns);
    weights_ = pieces_.take<float>(mates_ * a_.tokens);
    kept_ = pieces_.take<float>(a_.sequences * a_.heads);
    dsought_ = pieces_.take<float>(a_.sequences * rows_ld());
    dsought_rounded_ = pieces_.take(a_.sequences * rows_ld() * element_);
    dq_ = pieces_.take(a_.sequences * a_.columns * element_);
  }
  using Pass::bytes;

  void run(ThreadPool& pool, const void* dy, const void* x, const float* w, const float* b,
           const FirstAttentionResults& saved, void* dx, DType dw_type, void* dw, float* db) {
    gather_first(x);
    for_each(pool, slices(), [&](int64_t i, int part) {
      const int64_t h = i / kSlices;
      multiply(slice(to_rows(at(dy, of_head(h), a_.t), a_.columns, weight(w, kValue, h),
                             vectors_ + (a_.heads + h) * a_.columns, mates_ * a_.columns),
                     i % kSlices, kSlices),
               part);
    });
    for_each_group(pool,
                   [&](int64_t i, int64_t head, int64_t heads) { look(i, head, heads, dy, x, b, saved); });
    for_each(pool, slices(), [&](int64_t i, int part) {  // dq = dsought · Wkᵀ
      const int64_t h = i / kSlices;
      Gemm g = from_rows(at(dsought_rounded_, row_of_head(h), a_.t), rows_ld(), weight(w, kKey, h),
                         at(dq_, of_head(h), a_.t), a_.columns);
      g.c_type = a_.t;
      multiply(slice(g, i % kSlices, kSlices), part);
    });
    for_each(pool, slices(), [&](int64_t i, int part) {  // of the first token: dq · Wq
      multiply(
          slice(whole(dq_, w, false, vectors_ + (mates_ - 1) * a_.columns, mates_ * a_.columns), i, slices()),
          part);
    });
    const auto gradient = [&](Part of, int64_t h, const void* of_rows, const void* rows, int64_t ld, int part,
                              float* sums = nullptr) {
      Gemm g = weight_gradient(at(of_rows, of_head(h), a_.t), a_.columns, rows, ld, nullptr);
      g.c = at(dw, (of * a_.columns + of_head(h)) * a_.columns, dw_type);
      g.c_type = dw_type, g.c_streams = true, g.a_sums = sums;
      multiply(g, part);
    };
    const int64_t ranges = kRangesOfAThread * pool.size();
    for_each(pool, 3 * a_.heads + ranges, [&](int64_t i, int part) {
      const int64_t h = i / 3;
      if (h >= a_.heads) {
        const Share mine = share(a_.tokens, static_cast<int>(i - 3 * a_.heads), static_cast<int>(ranges));
        tokens(mine.begin, mine.end, dx);
      } else if (i % 3 == kQuery) {
        gradient(kQuery, h, dq_, first_, a_.columns, part, db + of_head(h));
      } else if (i % 3 == kKey) {
        gradient(kKey, h, saved.q, at(dsought_rounded_, row_of_head(h), a_.t), rows_ld(), part);
      } else {
        gradient(kValue, h, dy, at(saved.seen, row_of_head(h), a_.t), rows_ld(), part);
        biases(h, dy, db);
      }
    });
  }

 private:
  /// Gradients of scores and of what each head sought.  Of a sequence the vectors are sought and dy · Wv of
  /// all heads, and what q's gradient is for the first token; a token's weights of them are the gradient of
  /// its score, its probability, and whether it is the first one.
  void look(int64_t i, int64_t head, int64_t heads, const void* dy, const void* xs, const float* b,
            const FirstAttentionResults& saved) {
    const int64_t keys = length(i), columns = a_.columns, rows = (i * a_.heads + head) * columns;
    const std::byte* const x = tokens_of(xs, i);
    float* const sought = vectors_ + (i * mates_ + head) * columns;
    float* const ds = weights_ + head * a_.tokens + a_.cu[i];
    float* const kept = ds + a_.heads * a_.tokens;
    std::memcpy(sought, saved.sought + rows, static_cast<size_t>(heads * columns) * sizeof(float));
    kernels_.dots(heads, keys, columns, a_.ld, sought + rows_ld(), x, kept, a_.tokens);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t place = h * a_.tokens;
      kept_[i * a_.heads + head + h] =
          of_scores(i, head + h, of_bias(i, head + h, dy, b), saved.p + head * a_.tokens + a_.cu[i] + place,
                    ds + place, kept + place);
    }
    float* const is_first = weights_ + (mates_ - 1) * a_.tokens + a_.cu[i];
    for (int64_t j = 0; head == 0 && j < keys; ++j) is_first[j] = j == 0;
    kernels_.weighted_sums(heads, keys, columns, a_.ld, ds, a_.tokens, x, dsought_ + rows);
    kernels_.from_f32(heads * columns, dsought_ + rows, at(dsought_rounded_, rows, a_.t));
  }
  float of_bias(int64_t i, int64_t h, const void* dy, const float* b) const {
    float sum = 0;
    for (int64_t d = of_head(h); d < of_head(h + 1); ++d)
      sum += value(dy, i * a_.columns + d) * b[kValue * a_.columns + d];
    return sum;
  }
  /// ds: gradients of scores; kept: what dy gives each token, becomes the probabilities with dropout, whose
  /// sum is returned.
  float of_scores(int64_t i, int64_t h, float of_bias, const float* p, float* ds, float* kept) const {
    const int64_t keys = length(i);
    double delta = 0, sum = 0;
    for_masks(i, h, keys, [&](int64_t j, float mask) {
      kept[j] = mask * (kept[j] + of_bias);
      delta += static_cast<double>(p[j]) * kept[j];
    });
    const auto mean = static_cast<float>(delta);
    for_masks(i, h, keys, [&](int64_t j, float mask) {
      ds[j] = scale_ * p[j] * (kept[j] - mean);
      sum += kept[j] = mask * p[j];
    });
    return static_cast<float>(sum);
  }

  void biases(int64_t h, const void* dy, float* db) const {
    for (int64_t d = of_head(h); d < of_head(h + 1); ++d) {
      double sum = 0;
      for (int64_t i = 0; i < a_.sequences; ++i)
        sum += kept_[i * a_.heads + h] * value(dy, i * a_.columns + d);
      db[kKey * a_.columns + d] = 0;
      db[kValue * a_.columns + d] = static_cast<float>(sum);
    }
  }

  /// The gradient of tokens [begin, end).
  void tokens(int64_t begin, int64_t end, void* dx) const {
    int64_t sequence = std::upper_bound(a_.cu, a_.cu + a_.sequences + 1, begin) - a_.cu - 1;
    for (int64_t token = begin; token < end; ++sequence) {
      std::byte* const to = at(dx, token * a_.ld, a_.t);
      const bool belongs = sequence < a_.sequences;
      const int64_t last = belongs ? std::min<int64_t>(end, a_.cu[sequence + 1]) : end;
      if (belongs)
        kernels_.weighted_vectors(mates_, last - token, a_.columns, a_.ld, weights_ + token, a_.tokens,
                                  vectors_ + sequence * mates_ * a_.columns, to);
      else
        for (int64_t row = 0; row < last - token; ++row)
          std::memset(at(to, row * a_.ld, a_.t), 0, static_cast<size_t>(a_.columns * element_));
      token = last;
    }
  }

  const int64_t mates_;  // vectors of a sequence
  float *vectors_, *weights_, *kept_, *dsought_;
  std::byte *dsought_rounded_, *dq_;
};

}  // namespace

size_t first_attention_workspace_bytes(Isa isa, const FirstAttention& a, int threads) {
  return Forward(isa, a, threads, nullptr).bytes();
}

size_t first_attention_bwd_workspace_bytes(Isa isa, const FirstAttention& a, int threads) {
  return Backward(isa, a, threads, nullptr).bytes();
}

void first_attention(ThreadPool& pool, Isa isa, const FirstAttention& a, const void* x, const float* w,
                     const float* b, const FirstAttentionResults& out, void* workspace) {
  Forward(isa, a, pool.size(), workspace).run(pool, x, w, b, out);
}

void first_attention_bwd(ThreadPool& pool, Isa isa, const FirstAttention& a, const void* dy, const void* x,
                         const float* w, const float* b, const FirstAttentionResults& saved, void* dx,
                         DType dw_type, void* dw, float* db, void* workspace) {
  Backward(isa, a, pool.size(), workspace).run(pool, dy, x, w, b, saved, dx, dw_type, dw, db);
}

}  // namespace lathe::cpu
