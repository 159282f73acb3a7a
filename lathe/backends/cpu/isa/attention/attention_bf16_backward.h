// The backward pass of attention_bf16.h.
#pragma once
#include "lathe/backends/cpu/isa/attention/attention_bf16.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

struct BackwardSpace : Extents {
  Pieces pieces;
  Block* k = pieces.blocks(2 * deep * wide);
  Block* v = pieces.blocks(2 * deep * wide);
  Block* k_turned = pieces.blocks(2 * deep * wide);
  Block* q = pieces.blocks(kGroupStrips * 2 * wide);  ///< right operands of products along queries
  Block* dy = pieces.blocks(kGroupStrips * 2 * wide);
  Block* q_turned = pieces.blocks(2 * wide);  ///< right operands of products along the width
  Block* dy_turned = pieces.blocks(2 * wide);
  Block* p = pieces.blocks(2 * deep * kGroupStrips);  ///< left operands
  Block* ds = pieces.blocks(2 * deep * kGroupStrips);
  Block* ds_right = pieces.blocks(2 * deep);
  float* s = pieces.floats(keys * kStrip);
  float* dp = pieces.floats(keys * kStrip);
  float* dk = pieces.floats(keys * wide * 32);
  float* dv = pieces.floats(keys * wide * 32);
  uint16_t* kept = reinterpret_cast<uint16_t*>(pieces.floats(keys));
  KeyGroup* groups = reinterpret_cast<KeyGroup*>(pieces.floats(keys / 2));
  bool one_block;
  float* dq;  ///< of a group, or of all strips where they wait for more blocks of keys
  BackwardSpace(int64_t length, int64_t width, int64_t group, float* base)
      : Extents(length, width), pieces{base}, one_block(length <= kMaxKeys) {
    dq = pieces.floats((one_block ? kGroupStrips : group * parts(length, kStrip)) * wide * 32 * kStrip);
  }
  /// head: of the group
  float* dq_of(const AttentionTask& t, int64_t head, int64_t query) const {
    const int64_t strip = query / kStrip;
    const int64_t place = one_block ? strip % kGroupStrips : head * parts(t.length, kStrip) + strip;
    return dq + place * wide * 32 * kStrip;
  }
};
int64_t backward_workspace(int64_t length, int64_t width, int64_t group) {
  return BackwardSpace(length, width, group, nullptr).pieces.used;
}

/// Scores and gradients of probabilities [keys, 32] of a strip → probabilities as left operand, gradients of
/// scores as left and right operand, the left ones from key `from` of the block on.  lse2: log₂ of the sums
/// of exponentials.
template <int kHalves>
inline void softmax_bwd(const BackwardSpace& w, int64_t from, int64_t keys, int64_t strip, float factor,
                        float scale, const __m512* lse2, const __m512* minus_delta, Ahead& ahead) {
  const __m512 c = _mm512_set1_ps(factor), kept_factor = _mm512_set1_ps(scale);
  for (int64_t key = 0; key < parts(keys, 32) * 32; key += 2) {
    ahead.step();
    __m512i row[2];
    for (int r = 0; r < 2; ++r) {
      row[r] = _mm512_setzero_si512();
      if (key + r >= keys) continue;
      const uint32_t kept = kept_of(w.kept, key + r);
      __m512 e[2] = {}, g[2] = {};
      for (int h = 0; h < kHalves; ++h) {
        const int64_t at = (key + r) * kStrip + 16 * h;
        e[h] = exp2(_mm512_fmsub_ps(_mm512_load_ps(w.s + at), c, lse2[h]));
        g[h] =
            _mm512_mul_ps(e[h], _mm512_mask3_fmadd_ps(_mm512_load_ps(w.dp + at), kept_factor, minus_delta[h],
                                                      static_cast<__mmask16>(kept >> 16 * h)));
      }
      row[r] = rounded(g[0], g[1]);
      const int64_t block = (from + key + r) / 16 * kGroupStrips + strip, line = (key + r) % 16;
      _mm512_store_si512(w.p[block].word[line], rounded(kept, e[0], e[1]));
      _mm512_store_si512(w.ds[block].word[line], row[r]);
    }
    const Zipped z = zip(row[0], row[1]);
    for (int h = 0; h < 2; ++h)
      _mm512_store_si512(w.ds_right[key / 32 * 2 + h].word[key / 2 % 16], z.half[h]);
  }
}

/// Σ dout ∘ out of the first 16 rows of both.
inline __m512 dots(const Rows& a, const Rows& b) {
  __m512 s[16] = {};
  for (int64_t c = 0; c < a.cols; c += 32) {
    const Columns x = a.from(0, c), y = b.from(0, c);
    LATHE_UNROLL
    for (int i = 0; i < 16; ++i) s[i] = _mm512_dpbf16_ps(s[i], bf16_of(x.row(i)), bf16_of(y.row(i)));
  }
  __m512i sum[16];
  LATHE_UNROLL
  for (int i = 0; i < 16; ++i) sum[i] = _mm512_castps_si512(s[i]);
  transpose16(sum);
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; ++i)
      sum[i] =
          _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(sum[i]), _mm512_castsi512_ps(sum[i + n])));
  return _mm512_castsi512_ps(sum[0]);
}

/// The keys from `begin` on as operands.
inline int64_t take_keys(const AttentionTask& t, const BackwardSpace& w, int64_t begin) {
  const int64_t keys = smaller(kMaxKeys, t.length - begin);
  const Rows k = rows_of(t.k, t.qkv_stride, begin, keys, t.width);
  pack_left(k, w.k);
  pack_left_turned(k, w.k_turned);
  pack_left(rows_of(t.v, t.qkv_stride, begin, keys, t.width), w.v);
  key_groups(t, begin, parts(keys, 8), w.groups);
  return keys;
}

/// Sets to zero the probabilities and gradients of scores of a strip for the keys [from, end) of the block.
inline void clear_operands(const BackwardSpace& w, int64_t strip, int64_t from, int64_t end) {
  for (int64_t row = from / 16; row < end / 16; ++row) {
    w.p[row * kGroupStrips + strip] = {};
    w.ds[row * kGroupStrips + strip] = {};
  }
}

/// The operands of one strip of queries from its scores, for the keys `seen` of the block from `begin` on,
/// and their share of dq.
template <Multiply kMultiply>
inline void backward_strip(const AttentionTask& t, const BackwardSpace& w, int64_t query, int64_t begin,
                           int64_t block_keys, Seen seen, float* dq, Ahead& ahead) {
  const int64_t queries = smaller(kStrip, t.length - query), strip = query / kStrip % kGroupStrips;
  const auto [from, keys] = seen;
  const int halves = queries > 16 ? 2 : 1;
  const Rows dy = rows_of(t.dout, t.out_stride, query, queries, t.width);
  const Rows y = rows_of(t.out, t.out_stride, query, queries, t.width);
  pack_right_turned(rows_of(t.q, t.qkv_stride, query, queries, t.width), w.q_turned);
  pack_right_turned(dy, w.dy_turned);
  const int64_t rows = parts(keys, 16), first = from / 16 * w.wide;
  kMultiply({rows, halves, w.wide, w.k + first, w.wide, w.q_turned, 2, w.s, kStrip, false});
  hide_unseen(t, query, queries, begin + from, keys, w.s);
  kMultiply({rows, halves, w.wide, w.v + first, w.wide, w.dy_turned, 2, w.dp, kStrip, false});
  __m512 lse2[2], minus_delta[2];
  for (int h = 0; h < halves; ++h) {
    const int64_t half = 16 * h, left = queries - half;
    const __mmask16 there = static_cast<__mmask16>(first_of_32(left));
    lse2[h] = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, t.lse + query + half), _mm512_set1_ps(kLog2E));
    const Rows a{dy.data + half * dy.stride, dy.stride, left, dy.cols};
    const Rows b{y.data + half * y.stride, y.stride, left, y.cols};
    minus_delta[h] = _mm512_sub_ps(_mm512_setzero_ps(), dots(a, b));
  }
  decide(t, query, halves, keys, w.groups + from / 8, w.kept);
  const float factor = t.scale * kLog2E, scale = kept_scale(t.dropout);
  halves == 2 ? softmax_bwd<2>(w, from, keys, strip, factor, scale, lse2, minus_delta, ahead)
              : softmax_bwd<1>(w, from, keys, strip, factor, scale, lse2, minus_delta, ahead);
  kMultiply({2 * w.wide, 2, parts(keys, 32), w.k_turned + from / 32, parts(block_keys, 32), w.ds_right, 2, dq,
             kStrip, begun_before(t, query, begin)});
}

/// What a group of up to kGroupStrips strips adds to dk and dv of the keys `seen` of a block; the strips have
/// stored their operands before.
template <Multiply kMultiply>
inline void add_keys(const AttentionTask& t, const BackwardSpace& w, int64_t query, int64_t queries,
                     Seen seen, bool add) {
  const int64_t wide = 2 * w.wide, strips = parts(queries, kStrip), rows = parts(seen.keys, 16);
  const int64_t operand = seen.from / 16 * kGroupStrips, sum = seen.from * wide * 16;
  pack_right(rows_of(t.q, t.qkv_stride, query, queries, t.width), w.q);
  pack_right(rows_of(t.dout, t.out_stride, query, queries, t.width), w.dy);
  kMultiply({rows, wide, strips, w.p + operand, kGroupStrips, w.dy, wide, w.dv + sum, wide * 16, add});
  kMultiply({rows, wide, strips, w.ds + operand, kGroupStrips, w.q, wide, w.dk + sum, wide * 16, add});
}

constexpr int64_t kGroup = kGroupStrips * kStrip;

/// Whether dk and dv of a block of keys begin with zeros: the first group of queries, too, does not see all
/// keys.
inline bool begins_with_zeros(const AttentionTask& t, int64_t begin, int64_t keys) {
  const int64_t start = first_query(t, begin, kGroup);
  return seen_of_block(t, start, smaller(kGroup, t.length - start), begin, keys).keys < keys;
}

/// Adds to dk and dv of the block of keys from `begin` on what the queries of a head give, and to dq, which
/// is complete after the last block that a query sees.  add: dk and dv hold sums.
template <Multiply kMultiply>
inline void backward_queries(const AttentionTask& t, const BackwardSpace& w, int64_t head, int64_t begin,
                             int64_t keys, bool add, Ahead& ahead) {
  const __m512 scale[2] = {_mm512_set1_ps(t.scale), _mm512_set1_ps(t.scale)};
  const int64_t end = end_query(t, begin, keys);
  for (int64_t query = first_query(t, begin, kGroup); query < end; query += kGroup, add = true) {
    const int64_t queries = smaller(kGroup, t.length - query);
    const Seen all = seen_of_block(t, query, queries, begin, keys);
    for (int64_t at = 0; at < queries; at += kStrip) {
      const Seen seen = seen_of_block(t, query + at, smaller(kStrip, queries - at), begin, keys);
      if (seen.keys > 0)
        backward_strip<kMultiply>(t, w, query + at, begin, keys, seen, w.dq_of(t, head, query + at), ahead);
      const Seen there = seen.keys > 0 ? seen : Seen{all.from, 0};
      clear_operands(w, at / kStrip, all.from, there.from);
      clear_operands(w, at / kStrip, there.end(), all.end());
    }
    add_keys<kMultiply>(t, w, query, queries, all, add);
    if (end_key(t, query, queries) > begin + keys) continue;
    for (int64_t at = 0; at < queries; at += kStrip)
      store_turned(smaller(kStrip, queries - at), t.width, w.dq_of(t, head, query + at), scale,
                   static_cast<Bf16*>(t.dq) + (query + at) * t.qkv_stride, t.qkv_stride, t.results_are_cold);
  }
}

/// Goes block of keys by block of keys, and for each through the heads of the group, whose shares of dk and
/// dv are added in their order.
template <Multiply kMultiply>
void backward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const BackwardSpace w(t.length, t.width, t.group, t.workspace);
  Ahead ahead(t);
  ahead.add(t.q, t.qkv_stride, t.q_next);
  for (const void* x : {t.k, t.v}) ahead.add(x, t.qkv_stride, t.kv_next);
  for (const void* x : {t.dout, t.out}) ahead.add(x, t.out_stride, t.out_next);
  if (!t.results_are_cold) {
    ahead.add(t.dq, t.qkv_stride, t.q_next);
    for (const void* x : {t.dk, t.dv}) ahead.add(x, t.qkv_stride, t.kv_next);
  }
  for (int64_t begin = 0; begin < t.length; begin += kMaxKeys) {
    const int64_t keys = take_keys(t, w, begin), row = w.wide * 32;
    const bool zeros = begins_with_zeros(t, begin, keys);
    if (zeros)
      for (float* sums : {w.dk, w.dv}) memset(sums, 0, static_cast<size_t>(w.keys * row) * sizeof *sums);
    for (int64_t head = 0; head < t.group; ++head)
      backward_queries<kMultiply>(head_of_group<Bf16>(t, head), w, head, begin, keys, zeros || head > 0,
                                  ahead);
    const int64_t first = begin * t.qkv_stride;
    store_rows(keys, t.width, w.dk, row, t.scale, static_cast<Bf16*>(t.dk) + first, t.qkv_stride,
               t.results_are_cold);
    store_rows(keys, t.width, w.dv, row, kept_scale(t.dropout), static_cast<Bf16*>(t.dv) + first,
               t.qkv_stride, t.results_are_cold);
  }
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
