// Attention of one head of one sequence with products of bf16 that are summed in f32; softmax and its numbers
// are f32.  Scores are computed transposed: rows are keys, and the lanes of a vector 16 queries, so that a
// query's largest score and its sums need no sums across lanes.  Probabilities and gradients of scores are
// rounded to bf16 once, as operands.
//
// A strip is 32 queries.  Keys are taken in blocks of up to kMaxKeys, whose operands are packed once for as
// many queries, so the workspace of the forward pass does not grow with the sequence beyond that; the
// backward pass keeps the f32 gradients of all queries of a longer one.  Of a block a strip multiplies what
// its window shows. A source of isa/ defines LATHE_ISA_NAMESPACE, includes this and gives its product.
#pragma once
#include <initializer_list>

#include "lathe/backends/cpu/isa/attention/attention_blocks.h"
#include "lathe/backends/cpu/isa/attention/attention_decide.h"
#include "lathe/backends/cpu/isa/attention/attention_window.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

typedef void (*Multiply)(const Product&);

constexpr int64_t kStrip = 32, kGroupStrips = 4, kMaxKeys = 512, kMaxStrips = kMaxKeys / kStrip;
constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// Hands out pieces of a workspace, or counts them if there is none yet.
struct Pieces {
  float* base;
  int64_t used = 0;
  float* floats(int64_t n) {
    float* piece = base == nullptr ? nullptr : base + used;
    used += parts(n, 16) * 16;
    return piece;
  }
  Block* blocks(int64_t n) { return reinterpret_cast<Block*>(floats(n * 256)); }
};

/// Extents in blocks: of up to kMaxKeys keys, and of the width.
struct Extents {
  int64_t keys, deep, wide;
  Extents(int64_t length, int64_t width)
      : keys(parts(smaller(length, kMaxKeys), 32) * 32), deep(keys / 32), wide(parts(width, 32)) {}
};

/// Fetches what the next task reads and writes, little by little: its rows are too far from each other for
/// the processor to foresee them.  Does nothing where a sequence is several tasks, most of which read the
/// same keys.
class Ahead {
 public:
  explicit Ahead(const AttentionTask& t)
      : lines_(parts(t.width, 32)), end_(t.count < t.length ? 0 : t.length * lines_) {
    for (int64_t query = 0; query < t.length; query += kStrip)
      steps_ += t.group * parts(end_key(t, query, kStrip) - first_key(t, query, kStrip), 2);
  }
  void add(const void* x, int64_t stride, int64_t next) {
    tensors_[count_++] = {static_cast<const char*>(x) + 2 * next, 2 * stride};
  }
  /// Called for every pair of keys and strip of queries.
  void step() {
    for (due_ += end_; at_ < due_ && at_ < end_ * steps_; at_ += steps_) {
      for (int n = 0; n < count_; ++n) _mm_prefetch(tensors_[n].at + 64 * line_, _MM_HINT_T1);
      if (++line_ < lines_) continue;
      line_ = 0;
      for (int n = 0; n < count_; ++n) tensors_[n].at += tensors_[n].row_bytes;
    }
  }

 private:
  struct Tensor {
    const char* at;
    int64_t row_bytes;
  };
  Tensor tensors_[8];
  int count_ = 0;
  int64_t lines_, end_, steps_ = 0, due_ = 0, at_ = 0, line_ = 0;  // due, at: lines · steps
};

struct ForwardSpace : Extents {
  Pieces pieces;
  Block* k = pieces.blocks(2 * deep * wide);
  Block* v = pieces.blocks(2 * deep * wide);
  Block* v_right = pieces.blocks(2 * deep * wide);
  Block* q = pieces.blocks(2 * wide);
  Block* p = pieces.blocks(2 * deep);
  float* s = pieces.floats(keys * kStrip);
  uint16_t* kept = reinterpret_cast<uint16_t*>(pieces.floats(keys));
  KeyGroup* groups = reinterpret_cast<KeyGroup*>(pieces.floats(keys / 2));
  float* y;  ///< of each strip that waits for another block of keys
  ForwardSpace(int64_t length, int64_t width, float* base) : Extents(length, width), pieces{base} {
    y = pieces.floats((length > kMaxKeys ? kMaxStrips : 1) * wide * 32 * kStrip);
  }
};
int64_t forward_workspace(int64_t length, int64_t width) {
  return ForwardSpace(length, width, nullptr).pieces.used;
}

/// 2^x to 2.5 units of roundoff: a minimax polynomial of x − ⌊x⌋.
inline __m512 exp2(__m512 x) {
  const __m512 r = _mm512_reduce_ps(x, 0x9);
  __m512 p = _mm512_set1_ps(0.0018775767f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.008989341f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.055826318f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24015361f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.6931531f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.99999994f));
  return _mm512_scalef_ps(p, x);
}
/// Natural logarithm of x · 2^e for x > 0: that of a mantissa m in [¾, 1½) is 2 artanh((m − 1) / (m + 1)).
inline __m512 log_of(__m512 x, __m512 e) {
  const __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
  const __m512 one = _mm512_set1_ps(1.f);
  const __m512 z = _mm512_div_ps(_mm512_sub_ps(m, one), _mm512_add_ps(m, one)), z2 = _mm512_mul_ps(z, z);
  __m512 p = _mm512_set1_ps(2.f / 11);
  constexpr float kOdd[] = {2.f / 9, 2.f / 7, 2.f / 5, 2.f / 3, 2.f};
  for (float c : kOdd) p = _mm512_fmadd_ps(p, z2, _mm512_set1_ps(c));
  const __m512 up = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(m, one, _CMP_LT_OQ), one);
  const __m512 exponent = _mm512_add_ps(_mm512_getexp_ps(x), up);
  return _mm512_fmadd_ps(p, z, _mm512_mul_ps(_mm512_add_ps(exponent, e), _mm512_set1_ps(kLn2)));
}

/// Scores s[keys, 32] of a strip of queries that do not see the keys become −∞ when they are scaled.
inline void hide_unseen(const AttentionTask& t, int64_t query, int64_t queries, int64_t key, int64_t keys,
                        float* s) {
  if (all_seen(t, query, queries, key, keys)) return;
  const __m512 hidden = _mm512_set1_ps(t.scale < 0 ? __builtin_inff() : -__builtin_inff());
  for (int64_t place = key - query; place < key - query + keys; ++place, s += kStrip) {
    const uint32_t unseen = first_of_32(place - t.after) | ~first_of_32(place + t.before + 1);
    _mm512_mask_store_ps(s, static_cast<__mmask16>(unseen), hidden);
    _mm512_mask_store_ps(s + 16, static_cast<__mmask16>(unseen >> 16), hidden);
  }
}

/// What is known of a strip's softmax so far: the largest score · scale · log₂ e, and the sum of
/// exponentials.
struct Running {
  __m512 top[2], sum[2];
};

/// Scores s[keys, 32] → exponentials, those that are dropped 0, as right operand p; of up to 16 queries as
/// left operand.  shrink: the factor for the sums of earlier keys.
template <int kHalves>
inline void softmax(const ForwardSpace& w, int64_t keys, float factor, Running& run, __m512* shrink,
                    Ahead& ahead) {
  const __m512 c = _mm512_set1_ps(factor);
  const auto score = [&](int64_t key, int h) { return _mm512_load_ps(w.s + key * kStrip + 16 * h); };
  __m512 top[kHalves], sum[2][kHalves];
  for (int h = 0; h < kHalves; ++h) top[h] = run.top[h], sum[0][h] = sum[1][h] = _mm512_setzero_ps();
  for (int64_t key = 0; key < keys; ++key)
    for (int h = 0; h < kHalves; ++h) top[h] = _mm512_max_ps(top[h], _mm512_mul_ps(score(key, h), c));
  for (int64_t key = 0; key < w.keys && key < parts(keys, 32) * 32; key += 2) {
    ahead.step();
    __m512 e[2][2] = {};
    for (int r = 0; r < 2 && key + r < keys; ++r)
      for (int h = 0; h < kHalves; ++h) {
        e[r][h] = exp2(_mm512_fmsub_ps(score(key + r, h), c, top[h]));
        sum[r][h] = _mm512_add_ps(sum[r][h], e[r][h]);
      }
    const int64_t line = key / 2 % 16;
    if constexpr (kHalves == 1) {
      const uint32_t kept = w.kept[2 * key] | uint32_t{w.kept[2 * key + 2]} << 16;
      _mm512_store_si512(w.p[key / 32].word[line], paired(rounded(kept, e[0][0], e[1][0])));
    } else {
      const Zipped z = zip(rounded(kept_of(w.kept, key), e[0][0], e[0][1]),
                           rounded(kept_of(w.kept, key + 1), e[1][0], e[1][1]));
      for (int h = 0; h < 2; ++h) _mm512_store_si512(w.p[key / 32 * 2 + h].word[line], z.half[h]);
    }
  }
  if constexpr (kHalves == 1)
    for (Block* p = w.p; p < w.p + parts(keys, 32); ++p)
      store_turned_block([&](int i) { return _mm512_load_si512(p->word[i]); }, p);
  for (int h = 0; h < kHalves; ++h) {
    shrink[h] = exp2(_mm512_sub_ps(run.top[h], top[h]));
    run.sum[h] = _mm512_fmadd_ps(run.sum[h], shrink[h], _mm512_add_ps(sum[0][h], sum[1][h]));
    run.top[h] = top[h];
  }
}

inline Rows rows_of(const void* x, int64_t stride, int64_t begin, int64_t count, int64_t width) {
  return {static_cast<const Bf16*>(x) + begin * stride, stride, count, width};
}

/// y[16, columns] and y[columns, 32] times a factor for each query.
inline void scale_rows(float* y, int64_t columns, __m512 factor) {
  alignas(64) float row[16];
  _mm512_store_ps(row, factor);
  for (int r = 0; r < 16; ++r)
    for (int64_t c = 0; c < columns; c += 16, y += 16)
      _mm512_store_ps(y, _mm512_mul_ps(_mm512_load_ps(y), _mm512_set1_ps(row[r])));
}
inline void scale_columns(float* y, int64_t columns, __m512* factor) {
  zip_factors(factor);
  for (int64_t c = 0; c < columns; ++c)
    for (int h = 0; h < 2; ++h, y += 16) _mm512_store_ps(y, _mm512_mul_ps(_mm512_load_ps(y), factor[h]));
}

/// The keys from `begin` on as operands; of the values, those that strips of more, and of up to 16 queries
/// read.
inline void take_keys(const AttentionTask& t, const ForwardSpace& w, int64_t begin, int64_t keys, bool many,
                      bool few) {
  const Rows v = rows_of(t.v, t.qkv_stride, begin, keys, t.width);
  pack_left(rows_of(t.k, t.qkv_stride, begin, keys, t.width), w.k);
  if (many) pack_left_turned(v, w.v);
  if (few) pack_right(v, w.v_right);
  key_groups(t, begin, parts(keys, 8), w.groups);
}

/// Scores, softmax and products of one strip with the keys of the block from `begin` on that it sees; y: its
/// sums, including those of earlier blocks.
template <Multiply kMultiply>
inline void forward_strip(const AttentionTask& t, const ForwardSpace& w, int64_t query, int64_t begin,
                          int64_t block_keys, Running& run, float* y, Ahead& ahead) {
  const int64_t queries = smaller(kStrip, t.length - query), y_row = w.wide * 32;
  const bool few = queries <= 16, add = begun_before(t, query, begin);
  const auto [from, keys] = seen_of_block(t, query, queries, begin, block_keys);
  const int64_t deep = parts(keys, 32), block_deep = parts(block_keys, 32);
  __m512 shrink[2];
  pack_right_turned(rows_of(t.q, t.qkv_stride, query, queries, t.width), w.q);
  kMultiply(
      {parts(keys, 16), few ? 1 : 2, w.wide, w.k + from / 16 * w.wide, w.wide, w.q, 2, w.s, kStrip, false});
  hide_unseen(t, query, queries, begin + from, keys, w.s);
  decide(t, query, few ? 1 : 2, keys, w.groups + from / 8, w.kept);
  const float factor = t.scale * kLog2E;
  few ? softmax<1>(w, keys, factor, run, shrink, ahead) : softmax<2>(w, keys, factor, run, shrink, ahead);
  if (add) few ? scale_rows(y, y_row, shrink[0]) : scale_columns(y, y_row, shrink);
  if (few)
    kMultiply(
        {1, 2 * w.wide, deep, w.p, deep, w.v_right + from / 32 * 2 * w.wide, 2 * w.wide, y, y_row, add});
  else
    kMultiply({2 * w.wide, 2, deep, w.v + from / 32, block_deep, w.p, 2, y, kStrip, add});
}

/// The results of a strip whose keys have all been taken.
inline void finish_strip(const AttentionTask& t, const ForwardSpace& w, int64_t query, const Running& run,
                         float* y) {
  const int64_t queries = smaller(kStrip, t.length - query), y_row = w.wide * 32;
  __m512 inverse[2];
  for (int h = 0; h < 2; ++h) {
    const __mmask16 there = static_cast<__mmask16>(first_of_32(queries - 16 * h));
    _mm512_mask_storeu_ps(t.new_lse + query + 16 * h, there, log_of(run.sum[h], run.top[h]));
    inverse[h] = _mm512_div_ps(_mm512_set1_ps(kept_scale(t.dropout)), run.sum[h]);
  }
  Bf16* const to = static_cast<Bf16*>(t.y) + query * t.out_stride;
  if (queries <= 16) {
    scale_rows(y, y_row, inverse[0]);
    store_rows(queries, t.width, y, y_row, 1.f, to, t.out_stride, t.results_are_cold);
  } else {
    zip_factors(inverse);
    store_turned(queries, t.width, y, inverse, to, t.out_stride, t.results_are_cold);
  }
}

/// The queries of a task take the blocks of keys that they see, one block after the other.
template <Multiply kMultiply>
void forward(const AttentionTask* task) {
  const AttentionTask& t = *task;
  const ForwardSpace w(t.length, t.width, t.workspace);
  Ahead ahead(t);
  ahead.add(t.q, t.qkv_stride, t.q_next);
  for (const void* x : {t.k, t.v}) ahead.add(x, t.qkv_stride, t.kv_next);
  if (!t.results_are_cold) ahead.add(t.y, t.out_stride, t.out_next);
  Running run[kMaxStrips];
  for (Running& of : run)
    for (int h = 0; h < 2; ++h) of.top[h] = _mm512_set1_ps(kNoneSeen), of.sum[h] = _mm512_setzero_ps();
  const int64_t in_last = t.count % kStrip;
  const int64_t start = first_key(t, t.first, kStrip), end = end_key(t, t.first, t.count);
  const bool one_block = end - start <= kMaxKeys;
  for (int64_t begin = start; begin < end; begin += kMaxKeys) {
    const int64_t keys = smaller(kMaxKeys, end - begin);
    take_keys(t, w, begin, keys, t.count > 16, in_last > 0 && in_last <= 16);
    for (int64_t strip = 0; strip * kStrip < t.count; ++strip) {
      const int64_t at = strip * kStrip, query = t.first + at;
      const int64_t last = end_key(t, query, smaller(kStrip, t.count - at));
      if (last <= begin || first_key(t, query, kStrip) >= begin + keys) continue;
      float* const y = w.y + (one_block ? 0 : strip) * w.wide * 32 * kStrip;
      forward_strip<kMultiply>(t, w, query, begin, keys, run[strip], y, ahead);
      if (last <= begin + keys) finish_strip(t, w, query, run[strip], y);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
