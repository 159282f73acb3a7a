// Attention of one head of one sequence in f32.  Scores of kQueries queries against those of up to kMaxKeys
// keys that their window shows lie in a tile of the workspace; matrices are [keys or queries, padded(width)]
// f32 there. The backward pass keeps the gradients of all queries of a sequence that has more keys.  A source
// of isa/ defines LATHE_ISA_NAMESPACE, includes this and defines its tables as `attention_table<T>()`.
#pragma once
#include "lathe/backends/cpu/isa/attention/attention_kernels.h"
#include "lathe/backends/cpu/isa/attention/attention_tiles.h"
#include "lathe/backends/cpu/isa/attention/attention_window.h"
#include "lathe/backends/cpu/isa/rows/rows_dropout.h"
#include "lathe/backends/cpu/isa/rows/rows_math.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

constexpr int64_t kQueries = 64, kMaxKeys = 512;

/// Hands out pieces of a workspace, or counts them if there is none yet; 64-byte aligned because all are
/// padded.
struct Pieces {
  float* base;
  int64_t used = 0;
  float* take(int64_t rows, int64_t cols) {
    float* piece = base == nullptr ? nullptr : base + used;
    used += padded(rows) * padded(cols);
    return piece;
  }
};
struct ForwardSpace {
  int64_t length, width;
  Pieces pieces;
  int64_t keys = smaller(length, kMaxKeys);
  float* kt = pieces.take(keys, width);
  float* v = pieces.take(keys, width);
  float* q = pieces.take(kQueries, width);
  float* y = pieces.take(length > kMaxKeys ? kMaxKeys : kQueries, width);  ///< all that wait for more keys
  float* p = pieces.take(kQueries, keys);
};
struct BackwardSpace {
  int64_t length, width, group;
  Pieces pieces;
  int64_t keys = smaller(length, kMaxKeys);
  bool one_block = length <= kMaxKeys;
  float* kt = pieces.take(keys, width);
  float* vt = pieces.take(keys, width);
  float* k = pieces.take(keys, width);
  float* dk = pieces.take(keys, width);
  float* dv = pieces.take(keys, width);
  float* q = pieces.take(kQueries, width);
  float* dy = pieces.take(kQueries, width);
  float* dq =
      pieces.take(one_block ? kQueries : group * padded(length), width);  ///< all that wait for more keys
  float* p = pieces.take(kQueries, keys);
  float* dp = pieces.take(kQueries, keys);
};
int64_t forward_workspace(int64_t length, int64_t width) {
  return ForwardSpace{length, width, {nullptr}}.pieces.used;
}
int64_t backward_workspace(int64_t length, int64_t width, int64_t group) {
  return BackwardSpace{length, width, group, {nullptr}}.pieces.used;
}

/// x where the column is below `cols`, else `fill`.
inline Floats within(Floats x, int64_t column, int64_t cols, float fill) {
  if (column + kLanes <= cols) return x;
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < static_cast<int32_t>(cols - column) ? x : all(fill);
}

/// f(column, kept) for every vector of a row of `keys` columns, the keys from `first` on.  kept(x) sets to 0
/// what dropout drops of a vector, and may be called only where something can be dropped.
template <typename F>
inline void for_keys(const AttentionTask& t, int64_t query, int64_t first, int64_t keys, F f) {
  Decisions decisions(t.dropout);
  decisions.begin_row(t.sample, t.head << 16 | static_cast<uint32_t>(query));
  for (int64_t c = 0; c < keys; c += kDecisions) {
    if (t.dropout.threshold > 0) decisions.draw<1>(first + c);
    for (int i = 0; i < kDecisions && c + i < keys; i += kLanes)
      f(c + i, [&](Floats x) { return decisions.keep(i, x); });
  }
}

/// What is known of a query's softmax so far: the largest score, and the sum of the exponentials before
/// dropping.
struct RowSum {
  float largest, sum;
};
inline float exp_of(float x) { return exp(all(x))[0]; }

/// Scores of keys that the queries do not see become −∞.
inline void hide_unseen(const AttentionTask& t, int64_t query, int64_t queries, int64_t first, int64_t keys,
                        float* p, int64_t key_row) {
  if (all_seen(t, query, queries, first, keys)) return;
  for (int64_t i = 0; i < queries; ++i, p += key_row) {
    const int64_t begin = query + i - t.before - first, end = query + i + t.after + 1 - first;
    for (int64_t c = 0; c < smaller(begin, keys); ++c) p[c] = -__builtin_inff();
    for (int64_t c = end > 0 ? end : 0; c < keys; ++c) p[c] = -__builtin_inff();
  }
}

/// Scores of one query → e^(score − largest), some dropped.  Returns the factor for the sums of earlier keys;
/// fresh: there are none.
inline float softmax_row(const AttentionTask& t, int64_t query, int64_t first, int64_t keys, bool fresh,
                         float* row, RowSum& known) {
  const float nothing = -__builtin_inff();
  Sum top;
  for (Floats& set : top.set) set = all(nothing);
  for_whole_sums(padded(keys), [&](int64_t c, int s) {
    top.set[s] = larger(within(load(row + c), c, keys, nothing), top.set[s]);
  });
  float largest = known.largest;
  for (const Floats& set : top.set)
    for (int l = 0; l < kLanes; ++l) largest = set[l] > largest ? set[l] : largest;
  Sum sum{};
  for_whole_sums(padded(keys), [&](int64_t c, int s) {
    const Floats e = exp(within(load(row + c), c, keys, nothing) - largest);
    store(row + c, e);
    sum.set[s] += e;
  });
  if (t.dropout.threshold > 0)
    for_keys(t, query, first, keys, [&](int64_t c, auto kept) { store(row + c, kept(load(row + c))); });
  const float shrink = fresh ? 0.f : exp_of(known.largest - largest);
  known = {largest, sum.total() + (fresh ? 0.f : known.sum * shrink)};
  return shrink;
}

/// Adds to y what the queries from `query` on see of the block of keys from `begin` on; known and y include
/// earlier blocks.
template <typename T>
inline void forward_queries(const AttentionTask& t, const ForwardSpace& w, int64_t query, int64_t queries,
                            int64_t begin, int64_t block_keys, RowSum* known, float* y) {
  const int64_t wide = padded(t.width), key_row = padded(w.keys), extra = -queries & (kTile - 1);
  const auto [from, keys] = seen_of_block(t, query, queries, begin, block_keys);
  const bool add = begun_before(t, query, begin);
  unpack(queries, t.width, extra, static_cast<const T*>(t.q) + query * t.qkv_stride, t.qkv_stride, t.scale,
         w.q);
  product<false>(queries, keys, t.width, left(w.q, wide), transposed(w.kt + from * t.width, t.width), w.p,
                 key_row);
  hide_unseen(t, query, queries, begin + from, keys, w.p, key_row);
  for (int64_t i = 0; i < queries; ++i) {
    const float shrink = softmax_row(t, query + i, begin + from, keys, !add, w.p + i * key_row, known[i]);
    for (int64_t d = 0; add && d < wide; ++d) y[i * wide + d] *= shrink;
  }
  const Left p = left(w.p, key_row);
  const Right v = right(w.v + from * wide, wide);
  add ? product<true>(queries, wide, keys, p, v, y, wide)
      : product<false>(queries, wide, keys, p, v, y, wide);
}

template <typename T>
void forward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const ForwardSpace w{t.length, t.width, {t.workspace}};
  const int64_t wide = padded(t.width);
  RowSum known[kMaxKeys];
  for (int64_t i = 0; i < t.count; ++i) known[i] = {kNoneSeen, 0};
  const int64_t start = first_key(t, t.first, 32), end = end_key(t, t.first, t.count);
  const bool one_block = end - start <= kMaxKeys;
  for (int64_t begin = start; begin < end; begin += kMaxKeys) {
    const int64_t keys = smaller(kMaxKeys, end - begin), key = begin * t.qkv_stride;
    transpose(keys, t.width, static_cast<const T*>(t.k) + key, t.qkv_stride, w.kt);
    unpack(keys, t.width, 0, static_cast<const T*>(t.v) + key, t.qkv_stride, 1.f, w.v);
    for (int64_t at = 0; at < t.count; at += kQueries) {
      const int64_t query = t.first + at, queries = smaller(kQueries, t.count - at);
      const int64_t last = end_key(t, query, queries);
      if (last <= begin || first_key(t, query, 32) >= begin + keys) continue;
      float* const y = w.y + (one_block ? 0 : at) * wide;
      forward_queries<T>(t, w, query, queries, begin, keys, known + at, y);
      if (last > begin + keys) continue;
      T* out = static_cast<T*>(t.y) + query * t.out_stride;
      for (int64_t i = 0; i < queries; ++i) {
        const RowSum& row = known[at + i];
        t.new_lse[query + i] = static_cast<float>(double{row.largest} + ::log(double{row.sum}));
        pack(1, t.width, y + i * wide, 1.f / row.sum, out + i * t.out_stride, t.out_stride);
      }
    }
  }
}

/// p: scores → probabilities, some dropped; dp: their gradients → those of the scores.
inline void softmax_row_bwd(const AttentionTask& t, int64_t query, int64_t first, int64_t keys, float delta,
                            float* p, float* dp) {
  const float lse = t.lse[query];
  for_keys(t, query, first, keys, [&](int64_t c, auto kept) {
    const Floats e = exp(load(p + c) - lse), d = load(dp + c);
    const bool drop = t.dropout.threshold > 0;
    store(p + c, drop ? kept(e) : e);
    store(dp + c, e * ((drop ? kept(d) : d) - delta));
  });
}

template <typename T>
inline float dot(int64_t n, const T* a, const T* b) {
  Sum sum{};
  for_sums(n, [&](int64_t i, auto w, int s) { sum.set[s] += load(a + i, w) * load(b + i, w); });
  return sum.total();
}

/// The keys from `first` on; returns how many.
template <typename T>
inline int64_t take_keys(const AttentionTask& t, const BackwardSpace& w, int64_t first) {
  const int64_t keys = smaller(kMaxKeys, t.length - first), at = first * t.qkv_stride;
  transpose(keys, t.width, static_cast<const T*>(t.k) + at, t.qkv_stride, w.kt);
  transpose(keys, t.width, static_cast<const T*>(t.v) + at, t.qkv_stride, w.vt);
  unpack(keys, t.width, 0, static_cast<const T*>(t.k) + at, t.qkv_stride, 1.f, w.k);
  return keys;
}

/// Probabilities and gradients of scores of the queries from `query` on for the keys `seen` of the block from
/// `begin` on.
template <typename T>
inline void take_queries(const AttentionTask& t, const BackwardSpace& w, int64_t query, int64_t queries,
                         int64_t begin, Seen seen) {
  const int64_t extra = -queries & (kTile - 1), first = seen.from * t.width;
  const int64_t wide = padded(t.width), key_row = padded(w.keys);
  const T* douts = static_cast<const T*>(t.dout) + query * t.out_stride;
  const T* outs = static_cast<const T*>(t.out) + query * t.out_stride;
  unpack(queries, t.width, extra, static_cast<const T*>(t.q) + query * t.qkv_stride, t.qkv_stride, t.scale,
         w.q);
  unpack(queries, t.width, extra, douts, t.out_stride, 1.f, w.dy);
  product<false>(queries, seen.keys, t.width, left(w.q, wide), transposed(w.kt + first, t.width), w.p,
                 key_row);
  hide_unseen(t, query, queries, begin + seen.from, seen.keys, w.p, key_row);
  product<false>(queries, seen.keys, t.width, left(w.dy, wide), transposed(w.vt + first, t.width), w.dp,
                 key_row);
  for (int64_t i = 0; i < queries; ++i) {
    const float delta = dot(t.width, douts + i * t.out_stride, outs + i * t.out_stride);
    softmax_row_bwd(t, query + i, begin + seen.from, seen.keys, delta, w.p + i * key_row, w.dp + i * key_row);
  }
}

/// Adds to dk and dv of the block of keys from `begin` on what the queries of a head give, and to dq, which
/// is complete after the last block that a query sees; dqs: of all queries of the head, or of those at hand.
template <typename T>
inline void backward_queries(const AttentionTask& t, const BackwardSpace& w, int64_t begin, int64_t keys,
                             float* dqs) {
  const int64_t wide = padded(t.width), key_row = padded(w.keys);
  const Left ds = left(w.dp, key_row);
  const int64_t end = end_query(t, begin, keys);
  for (int64_t query = first_query(t, begin, kQueries); query < end; query += kQueries) {
    const int64_t queries = smaller(kQueries, t.length - query);
    const Seen seen = seen_of_block(t, query, queries, begin, keys);
    const int64_t from = seen.from * wide;
    take_queries<T>(t, w, query, queries, begin, seen);
    const Left p = left_transposed(w.p, key_row), turned_ds = left_transposed(w.dp, key_row);
    product<true>(seen.keys, wide, queries, p, right(w.dy, wide), w.dv + from, wide);
    product<true>(seen.keys, wide, queries, turned_ds, right(w.q, wide), w.dk + from, wide);
    float* const dq = dqs + (w.one_block ? 0 : query) * wide;
    const Right k = right(w.k + from, wide);
    begun_before(t, query, begin) ? product<true>(queries, wide, seen.keys, ds, k, dq, wide)
                                  : product<false>(queries, wide, seen.keys, ds, k, dq, wide);
    if (end_key(t, query, queries) <= begin + keys)
      pack(queries, t.width, dq, t.scale, static_cast<T*>(t.dq) + query * t.qkv_stride, t.qkv_stride);
  }
}

/// Goes block of keys by block of keys, and for each through the heads of the group, whose shares of dk and
/// dv are added in their order.
template <typename T>
void backward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const BackwardSpace w{t.length, t.width, t.group, {t.workspace}};
  const int64_t wide = padded(t.width), key_row = padded(w.keys);
  for (int64_t begin = 0; begin < t.length; begin += kMaxKeys) {
    const int64_t keys = take_keys<T>(t, w, begin);
    memset(w.dk, 0, static_cast<size_t>(key_row * wide) * sizeof(float));
    memset(w.dv, 0, static_cast<size_t>(key_row * wide) * sizeof(float));
    for (int64_t head = 0; head < t.group; ++head)
      backward_queries<T>(head_of_group<T>(t, head), w, begin, keys,
                          w.dq + (w.one_block ? 0 : head * padded(t.length) * wide));
    pack(keys, t.width, w.dk, 1.f, static_cast<T*>(t.dk) + begin * t.qkv_stride, t.qkv_stride);
    pack(keys, t.width, w.dv, 1.f, static_cast<T*>(t.dv) + begin * t.qkv_stride, t.qkv_stride);
  }
}

template <typename T>
constexpr AttentionKernels attention_table() {
  return {forward<T>, backward<T>, forward_workspace, backward_workspace, nullptr, nullptr};
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
