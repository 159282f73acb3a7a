#pragma once
#include "lathe/backends/cpu/isa/products/gemm_avx512.h"
#include "lathe/backends/cpu/isa/products/gemm_int8_plain.h"

// What the AVX-512 levels share in products of integers.  Each file that includes this gets its own copy,
// compiled with its own flags.  A word is 4 bytes of values that follow each other along k.

namespace lathe::cpu {
namespace {

// Rows [begin, end) of a store.
inline void int8_store_rows(const GemmStore* s, int begin, int end) {
  for (int64_t j = 0; j < s->cols; j += 16) {
    const __mmask16 lanes = first_lanes(s->cols - j);
    const __m512 scale = _mm512_maskz_loadu_ps(lanes, s->column_scale + j);
    const __m512i offset = _mm512_maskz_loadu_epi32(lanes, s->column_offset + j);
    const __m512 bias = s->bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, s->bias + j);
    for (int64_t i = begin; i < end; ++i) {
      const __m512i sum = _mm512_loadu_si512(s->acc + i * s->acc_ld + j);
      const __m512 factor = _mm512_mul_ps(_mm512_set1_ps(s->row_scale[i]), scale);
      const __m512 value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, offset)), factor, bias);
      uint16_t* c16 = static_cast<uint16_t*>(s->c) + i * s->ldc + j;
      if (s->c_type == GemmType::kBf16)
        store_halves(c16, lanes, narrow(value));
      else if (s->c_type == GemmType::kF16)
        store_halves(c16, lanes, narrow_f16(value));
      else
        store_words(static_cast<float*>(s->c) + i * s->ldc + j, lanes, _mm512_castps_si512(value));
    }
  }
}
inline auto int8_store_rows_of(const GemmStore*) -> void (*)(const GemmStore*, int begin, int end) {
  return int8_store_rows;
}
[[maybe_unused]] void int8_store(const GemmStore* s) { int8_store_rows(s, 0, s->rows); }

// A tile of kRows x 32 sums.  Dot: adds the products of the words of two registers.
template <typename Dot, int kRows>
void int8_tile_of(const GemmTile* t) {
  __m512i sum[kRows][2];
  float* acc = t->acc;
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm512_load_si512(acc + i * kNr + 16 * j) : _mm512_setzero_si512();
  // Three places from which every row is a small multiple of the distance away that an address can hold.
  const int64_t row = t->a_row_bytes;
  const char* a[3] = {static_cast<const char*>(t->a)};
  for (int i = 1; i < 3; ++i) a[i] = a[0] + 5 * i * row;
  const char* b = static_cast<const char*>(t->b);
  for (int64_t k = 0, words = t->k / Dot::kWord; k < words; ++k, b += 4 * kNr) {
    const __m512i b0 = _mm512_load_si512(b), b1 = _mm512_load_si512(b + 64);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      int32_t word;
      memcpy(&word, a[i / 5] + i % 5 * row + 4 * k, sizeof word);
      const __m512i ai = _mm512_set1_epi32(word);
      sum[i][0] = Dot::add(sum[i][0], ai, b0);
      sum[i][1] = Dot::add(sum[i][1], ai, b1);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm512_store_si512(acc + i * kNr + 16 * j, sum[i][j]);
}

template <typename Dot>
void int8_tile(const GemmTile* t) {
  static constexpr void (*kTiles[])(const GemmTile*) = {
      int8_tile_of<Dot, 1>,  int8_tile_of<Dot, 2>,  int8_tile_of<Dot, 3>,  int8_tile_of<Dot, 4>,
      int8_tile_of<Dot, 5>,  int8_tile_of<Dot, 6>,  int8_tile_of<Dot, 7>,  int8_tile_of<Dot, 8>,
      int8_tile_of<Dot, 9>,  int8_tile_of<Dot, 10>, int8_tile_of<Dot, 11>, int8_tile_of<Dot, 12>,
      int8_tile_of<Dot, 13>, int8_tile_of<Dot, 14>};
  if (t->finish != nullptr) int8_store(t->finish);
  kTiles[t->rows - 1](t);
}

}  // namespace
}  // namespace lathe::cpu
