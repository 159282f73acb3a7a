#pragma once
#include <immintrin.h>

#include "lathe/backends/cpu/isa/gemm_plain.h"

// What the AVX-512 levels share.  Each file that includes this gets its own copy, compiled with its own
// flags. The unit of packing is a "word": one f32, or two bf16 that follow each other along k.

namespace lathe::cpu {
namespace {

[[maybe_unused]] constexpr int kMr = 14, kNr = 32;  // 28 of 32 registers hold sums

inline __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1);
}

// bf16 of 16 floats in the low half of each word: nearest even, NaN quiet.
inline __m512i round_to_bf16(__m512 x) {
  const __m512i word = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(word, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(word, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(word, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16);
}

inline __m512 widen_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

// Rows r[i] of words become columns.
inline void transpose16(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {  // pairs of rows: words
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)  // fours: pairs of words; r[i + c] holds column c of each 128-bit lane
    for (int h = 0; h < 2; ++h) {
      r[i + 2 * h] = _mm512_unpacklo_epi64(t[i + h], t[i + 2 + h]);
      r[i + 2 * h + 1] = _mm512_unpackhi_epi64(t[i + h], t[i + 2 + h]);
    }
  for (int c = 0; c < 4; ++c) {  // eights and sixteens: lanes
    const __m512i low = _mm512_shuffle_i32x4(r[c], r[c + 4], 0x88),
                  low2 = _mm512_shuffle_i32x4(r[c], r[c + 4], 0xdd);
    const __m512i high = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0x88);
    const __m512i high2 = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0xdd);
    t[c] = _mm512_shuffle_i32x4(low, high, 0x88);
    t[c + 8] = _mm512_shuffle_i32x4(low, high, 0xdd);
    t[c + 4] = _mm512_shuffle_i32x4(low2, high2, 0x88);
    t[c + 12] = _mm512_shuffle_i32x4(low2, high2, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

[[maybe_unused]] void store(const GemmStore* s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    float* c = static_cast<float*>(s->c) + i * s->ldc;
    uint16_t* c16 = static_cast<uint16_t*>(s->c) + i * s->ldc;
    for (int64_t j = 0; j < s->cols; j += 16) {
      const __mmask16 lanes = first_lanes(s->cols - j);
      __m512 value = _mm512_maskz_loadu_ps(lanes, s->acc + i * s->acc_ld + j);
      if (s->bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, s->bias + j));
      if (s->beta != 0) {
        const __m512 old = s->c_bf16 ? widen_bf16(_mm256_maskz_loadu_epi16(lanes, c16 + j))
                                     : _mm512_maskz_loadu_ps(lanes, c + j);
        value = _mm512_fmadd_ps(_mm512_set1_ps(s->beta), old, value);
      }
      if (s->c_bf16)
        _mm256_mask_storeu_epi16(c16 + j, lanes, _mm512_cvtepi32_epi16(round_to_bf16(value)));
      else
        _mm512_mask_storeu_ps(c + j, lanes, value);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
