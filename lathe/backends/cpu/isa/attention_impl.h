// Attention of one head of one sequence.  Scores of kQueries queries against all keys lie in a tile of the
// workspace; matrices are [length, padded(width)] f32 there.  A source of isa/ defines LATHE_ISA_NAMESPACE,
// includes this and defines its tables as `attention_table<T>()`.
#pragma once
#include "lathe/backends/cpu/isa/attention_kernels.h"
#include "lathe/backends/cpu/isa/attention_tiles.h"
#include "lathe/backends/cpu/isa/rows_dropout.h"
#include "lathe/backends/cpu/isa/rows_math.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

constexpr int64_t kQueries = 64;

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Pieces of the workspace, one behind the other; 64-byte aligned because all are padded.
struct Pieces {
  float* next;
  float* take(int64_t rows, int64_t cols) {
    float* piece = next;
    next += padded(rows) * padded(cols);
    return piece;
  }
};
int64_t forward_workspace(int64_t length, int64_t width) {
  return padded(width) * (2 * padded(length) + 2 * kQueries) + kQueries * padded(length);
}
int64_t backward_workspace(int64_t length, int64_t width) {
  return padded(width) * (5 * padded(length) + 3 * kQueries) + 2 * kQueries * padded(length);
}

/// x where the column is below `cols`, else `fill`.
inline Floats within(Floats x, int64_t column, int64_t cols, float fill) {
  if (column + kLanes <= cols) return x;
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < static_cast<int32_t>(cols - column) ? x : all(fill);
}

/// f(column, bits) for every vector of a row of `keys` columns; bits are the random bits of its columns,
/// drawn only where something can be dropped.
template <typename F>
inline void for_keys(const AttentionTask& t, int64_t query, int64_t keys, F f) {
  uint16_t bits[kDecisions] = {};
  const uint32_t row = t.head << 16 | static_cast<uint32_t>(query);
  for (int64_t c = 0; c < keys; c += kDecisions) {
    if (t.dropout.threshold > 0) decide(t.dropout, t.sample, row, c, bits);
    for (int i = 0; i < kDecisions && c + i < keys; i += kLanes) f(c + i, bits + i);
  }
}

/// Scores of one query → e^(score − largest), some dropped.  Returns the sum before dropping, and the
/// largest.
struct RowSum {
  float largest, sum;
};
inline RowSum softmax_row(const AttentionTask& t, int64_t query, float* row) {
  const int64_t keys = t.length;
  const float nothing = -__builtin_inff();
  Sum top;
  for (Floats& set : top.set) set = all(nothing);
  for_whole_sums(padded(keys), [&](int64_t c, int s) {
    top.set[s] = larger(within(load(row + c), c, keys, nothing), top.set[s]);
  });
  float largest = nothing;
  for (const Floats& set : top.set)
    for (int l = 0; l < kLanes; ++l) largest = set[l] > largest ? set[l] : largest;
  Sum sum{};
  for_whole_sums(padded(keys), [&](int64_t c, int s) {
    const Floats e = exp(within(load(row + c), c, keys, nothing) - largest);
    store(row + c, e);
    sum.set[s] += e;
  });
  if (t.dropout.threshold > 0)
    for_keys(t, query, keys,
             [&](int64_t c, const uint16_t* bits) { store(row + c, keep(t.dropout, bits, load(row + c))); });
  return {largest, sum.total()};
}

template <typename T>
void forward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const int64_t keys = t.length, wide = padded(t.width), key_row = padded(keys);
  Pieces pieces{t.workspace};
  float* kt = pieces.take(keys, t.width);
  float* v = pieces.take(keys, t.width);
  float* q = pieces.take(kQueries, t.width);
  float* y = pieces.take(kQueries, t.width);
  float* p = pieces.take(kQueries, keys);
  transpose(keys, t.width, static_cast<const T*>(t.k), t.qkv_stride, kt);
  unpack(keys, t.width, 0, static_cast<const T*>(t.v), t.qkv_stride, 1.f, v);
  for (int64_t begin = 0; begin < keys; begin += kQueries) {
    const int64_t queries = smaller(kQueries, keys - begin), extra = -queries & (kTile - 1);
    unpack(queries, t.width, extra, static_cast<const T*>(t.q) + begin * t.qkv_stride, t.qkv_stride, t.scale,
           q);
    product<false>(queries, keys, t.width, left(q, wide), transposed(kt, t.width), p, key_row);
    float inverse[kQueries];
    for (int64_t i = 0; i < queries; ++i) {
      const RowSum s = softmax_row(t, begin + i, p + i * key_row);
      t.new_lse[begin + i] = static_cast<float>(double{s.largest} + ::log(double{s.sum}));
      inverse[i] = 1.f / s.sum;
    }
    product<false>(queries, wide, keys, left(p, key_row), right(v, wide), y, wide);
    T* out = static_cast<T*>(t.y) + begin * t.out_stride;
    for (int64_t i = 0; i < queries; ++i)
      pack(1, t.width, y + i * wide, inverse[i], out + i * t.out_stride, t.out_stride);
  }
}

/// p: scores → probabilities, some dropped; dp: their gradients → those of the scores.
inline void softmax_row_bwd(const AttentionTask& t, int64_t query, float delta, float* p, float* dp) {
  const float lse = t.lse[query];
  for_keys(t, query, t.length, [&](int64_t c, const uint16_t* bits) {
    const Floats e = exp(load(p + c) - lse), d = load(dp + c);
    const bool drop = t.dropout.threshold > 0;
    store(p + c, drop ? keep(t.dropout, bits, e) : e);
    store(dp + c, e * ((drop ? keep(t.dropout, bits, d) : d) - delta));
  });
}

template <typename T>
inline float dot(int64_t n, const T* a, const T* b) {
  Sum sum{};
  for_sums(n, [&](int64_t i, auto w, int s) { sum.set[s] += load(a + i, w) * load(b + i, w); });
  return sum.total();
}

template <typename T>
void backward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const int64_t keys = t.length, wide = padded(t.width), key_row = padded(keys);
  Pieces pieces{t.workspace};
  float* kt = pieces.take(keys, t.width);
  float* vt = pieces.take(keys, t.width);
  float* k = pieces.take(keys, t.width);
  float* dk = pieces.take(keys, t.width);
  float* dv = pieces.take(keys, t.width);
  float* q = pieces.take(kQueries, t.width);
  float* dy = pieces.take(kQueries, t.width);
  float* dq = pieces.take(kQueries, t.width);
  float* p = pieces.take(kQueries, keys);
  float* dp = pieces.take(kQueries, keys);
  transpose(keys, t.width, static_cast<const T*>(t.k), t.qkv_stride, kt);
  transpose(keys, t.width, static_cast<const T*>(t.v), t.qkv_stride, vt);
  unpack(keys, t.width, 0, static_cast<const T*>(t.k), t.qkv_stride, 1.f, k);
  memset(dk, 0, static_cast<size_t>(key_row * wide) * sizeof(float));
  memset(dv, 0, static_cast<size_t>(key_row * wide) * sizeof(float));
  for (int64_t begin = 0; begin < keys; begin += kQueries) {
    const int64_t queries = smaller(kQueries, keys - begin), extra = -queries & (kTile - 1);
    const T* douts = static_cast<const T*>(t.dout) + begin * t.out_stride;
    const T* outs = static_cast<const T*>(t.out) + begin * t.out_stride;
    unpack(queries, t.width, extra, static_cast<const T*>(t.q) + begin * t.qkv_stride, t.qkv_stride, t.scale,
           q);
    unpack(queries, t.width, extra, douts, t.out_stride, 1.f, dy);
    product<false>(queries, keys, t.width, left(q, wide), transposed(kt, t.width), p, key_row);
    product<false>(queries, keys, t.width, left(dy, wide), transposed(vt, t.width), dp, key_row);
    for (int64_t i = 0; i < queries; ++i) {
      const float delta = dot(t.width, douts + i * t.out_stride, outs + i * t.out_stride);
      softmax_row_bwd(t, begin + i, delta, p + i * key_row, dp + i * key_row);
    }
    product<true>(keys, wide, queries, left_transposed(p, key_row), right(dy, wide), dv, wide);
    product<true>(keys, wide, queries, left_transposed(dp, key_row), right(q, wide), dk, wide);
    product<false>(queries, wide, keys, left(dp, key_row), right(k, wide), dq, wide);
    pack(queries, t.width, dq, t.scale, static_cast<T*>(t.dq) + begin * t.qkv_stride, t.qkv_stride);
  }
  pack(keys, t.width, dk, 1.f, static_cast<T*>(t.dk), t.qkv_stride);
  pack(keys, t.width, dv, 1.f, static_cast<T*>(t.dv), t.qkv_stride);
}

template <typename T>
constexpr AttentionKernels attention_table() {
  return {forward<T>, backward<T>, forward_workspace, backward_workspace, nullptr, nullptr};
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
