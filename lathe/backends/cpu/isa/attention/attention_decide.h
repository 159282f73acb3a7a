// Which probabilities of a strip of 32 queries dropout keeps: Philox of lathe/core/philox.h with a query in
// each lane.  The counter is (key / 8, row, sample, site), row = head << 16 | query; what depends only on the
// key or only on the query is computed once for each.
#pragma once
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "lathe/backends/cpu/isa/attention/attention_kernels.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

inline uint32_t upper(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
inline uint64_t product(uint32_t a, uint32_t m) { return uint64_t{a} * m; }

/// The words of the first rounds that depend only on the group of eight keys, with the round's key.
struct KeyGroup {
  uint32_t word2_round1, word0_round2, word2_round2, word2_round3;
};

/// groups of keys [first, first + 8 · count)
inline void key_groups(const AttentionTask& t, int64_t first, int64_t count, KeyGroup* to) {
  const uint32_t low_sample = static_cast<uint32_t>(product(t.sample, kMultiplier2));
  const uint32_t k0 = t.dropout.seed, k1 = t.dropout.step;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t p0 = product(static_cast<uint32_t>(first / 8 + i), kMultiplier0);
    const uint64_t p2 = product(upper(p0) ^ t.dropout.site ^ k1, kMultiplier2);         // round 1
    const uint64_t q0 = product(upper(p2) ^ low_sample ^ (k0 + kWeyl0), kMultiplier0);  // round 2
    to[i] = {static_cast<uint32_t>(p0) ^ (k1 + kWeyl1), static_cast<uint32_t>(p2) ^ (k0 + 2 * kWeyl0),
             upper(q0) ^ (k1 + 2 * kWeyl1), static_cast<uint32_t>(q0) ^ (k1 + 3 * kWeyl1)};
  }
}

inline __m512i times(__m512i x, uint32_t m) { return _mm512_mul_epu32(x, _mm512_set1_epi64(m)); }
inline __m512i high_word(__m512i x) { return _mm512_srli_epi64(x, 32); }
inline __m512i word(uint32_t x) { return _mm512_set1_epi64(x); }
inline __m512i xor3(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }

/// Eight queries, one to 64 bits; only the lower words count.  `high`, `low`: the product of the second
/// round.
struct EightQueries {
  __m512i high, low;

  EightQueries(const AttentionTask& t, int64_t first, int step) {
    const uint32_t row = t.head << 16 | static_cast<uint32_t>(first);
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i rows =
        _mm512_add_epi64(word(row), _mm512_mul_epu32(lane, word(static_cast<uint32_t>(step))));
    const uint32_t key = upper(product(t.sample, kMultiplier2)) ^ t.dropout.seed;
    low = times(_mm512_xor_si512(rows, word(key)), kMultiplier0);
    high = high_word(low);
  }
  /// The four words of Philox for a group of keys.
  void draw(const DropoutRule& rule, const KeyGroup& g, __m512i* c) const {
    __m512i p2 = times(_mm512_xor_si512(high, word(g.word2_round1)), kMultiplier2);
    c[0] = _mm512_xor_si512(high_word(p2), word(g.word0_round2));
    c[1] = p2;
    c[2] = _mm512_xor_si512(low, word(g.word2_round2));
    __m512i p0 = times(c[0], kMultiplier0);
    p2 = times(c[2], kMultiplier2);
    c[0] = xor3(high_word(p2), c[1], word(rule.seed + 3 * kWeyl0));
    c[1] = p2;
    c[2] = _mm512_xor_si512(high_word(p0), word(g.word2_round3));
    c[3] = p0;
    for (uint32_t round = 4; round < 7; ++round) {
      p0 = times(c[0], kMultiplier0);
      p2 = times(c[2], kMultiplier2);
      c[0] = xor3(high_word(p2), c[1], word(rule.seed + round * kWeyl0));
      c[1] = p2;
      c[2] = xor3(high_word(p0), c[3], word(rule.step + round * kWeyl1));
      c[3] = p0;
    }
  }
};

/// kept[2 · key + half]: a bit for each of the 16 queries from query + 16 · half on.  Rounded up to 8 keys.
inline void decide(const AttentionTask& t, int64_t query, int halves, int64_t keys, const KeyGroup* groups,
                   uint16_t* kept) {
  const bool some = t.dropout.threshold > 0 && t.dropout.threshold <= 0xffffu;
  memset(kept, t.dropout.threshold == 0 ? 0xff : 0, static_cast<size_t>(keys) * 2 * sizeof *kept);
  if (!some) return;
  const __m512i threshold = _mm512_set1_epi32(static_cast<int>(t.dropout.threshold << 16));
  for (int half = 0; half < halves; ++half) {
    const EightQueries even(t, query + 16 * half, 2), odd(t, query + 16 * half + 1, 2);
    for (int64_t key = 0; key < keys; key += 8) {
      __m512i c[4], d[4];
      even.draw(t.dropout, groups[key / 8], c);
      odd.draw(t.dropout, groups[key / 8], d);
      uint16_t* to = kept + 2 * key + half;
      for (int i = 0; i < 4; ++i) {
        const __m512i bits = _mm512_mask_blend_epi32(0xaaaa, c[i], _mm512_slli_epi64(d[i], 32));
        to[4 * i] = _mm512_cmpge_epu32_mask(_mm512_slli_epi32(bits, 16), threshold);
        to[4 * i + 2] = _mm512_cmpge_epu32_mask(bits, threshold);
      }
    }
  }
}
inline uint32_t kept_of(const uint16_t* kept, int64_t key) {
  uint32_t bits;
  memcpy(&bits, kept + 2 * key, sizeof bits);
  return bits;
}
/// The factor of a probability that is kept.
inline float kept_scale(const DropoutRule& rule) {
  return rule.threshold == 0 ? 1.f : rule.threshold > 0xffffu ? 0.f : rule.scale;
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
