#include "lathe/backends/cpu/isa/gemm_avx512.h"

namespace lathe::cpu {
namespace {

// 16 consecutive values of a line of src, those beyond `count` zero.
template <bool kBf16, bool kRound>
__m512i load_words(const char* src, int64_t at, int64_t count) {
  const __mmask16 lanes = first_lanes(count);
  if (kBf16)
    return _mm512_castps_si512(
        widen_bf16(_mm256_maskz_loadu_epi16(lanes, reinterpret_cast<const uint16_t*>(src) + at)));
  const __m512 value = _mm512_maskz_loadu_ps(lanes, reinterpret_cast<const float*>(src) + at);
  return kRound ? _mm512_slli_epi32(round_to_bf16(value), 16) : _mm512_castps_si512(value);
}

template <bool kBf16, bool kRound>
void pack_words(const GemmPack* p) {
  const char* src = static_cast<const char*>(p->src);
  int32_t* dst = static_cast<int32_t*>(p->dst);
  const int64_t line_bytes = p->ld * (kBf16 ? 2 : 4);
  if (!p->along_k) {
    for (int64_t k = 0; k < p->k_padded; ++k, dst += p->panel)
      for (int64_t w = 0; w < p->panel; w += 16)
        _mm512_mask_storeu_epi32(
            dst + w, first_lanes(p->panel - w),
            load_words<kBf16, kRound>(src + (k < p->k ? k : 0) * line_bytes, w, k < p->k ? p->width - w : 0));
    return;
  }
  for (int64_t k = 0; k < p->k_padded; k += 16)
    for (int64_t w = 0; w < p->panel; w += 16) {
      __m512i rows[16];
      for (int64_t i = 0; i < 16; ++i)
        rows[i] = w + i < p->width ? load_words<kBf16, kRound>(src + (w + i) * line_bytes, k, p->k - k)
                                   : _mm512_setzero_si512();
      transpose16(rows);
      for (int64_t i = 0; i < 16 && k + i < p->k_padded; ++i)
        _mm512_mask_storeu_epi32(dst + (k + i) * p->panel + w, first_lanes(p->panel - w), rows[i]);
    }
}

void pack(const GemmPack* p) {
  if (p->src_bf16)
    pack_words<true, false>(p);
  else if (p->round)
    pack_words<false, true>(p);
  else
    pack_words<false, false>(p);
}

template <int kRows>
void tile_of(const GemmTile* t) {
  __m512 sum[kRows][2];
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm512_load_ps(t->acc + i * kNr + 16 * j) : _mm512_setzero_ps();
  const float* a = static_cast<const float*>(t->a);
  const float* b = static_cast<const float*>(t->b);
  for (int64_t k = t->k; k > 0; --k, a += kMr, b += kNr) {
    const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m512 ai = _mm512_set1_ps(a[i]);
      sum[i][0] = _mm512_fmadd_ps(ai, b0, sum[i][0]);
      sum[i][1] = _mm512_fmadd_ps(ai, b1, sum[i][1]);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm512_store_ps(t->acc + i * kNr + 16 * j, sum[i][j]);
}

constexpr void (*kTiles[])(const GemmTile*) = {tile_of<1>,  tile_of<2>,  tile_of<3>,  tile_of<4>, tile_of<5>,
                                               tile_of<6>,  tile_of<7>,  tile_of<8>,  tile_of<9>, tile_of<10>,
                                               tile_of<11>, tile_of<12>, tile_of<13>, tile_of<14>};

void tile(const GemmTile* t) { kTiles[t->rows - 1](t); }

}  // namespace

const GemmKernel kGemmF32Avx512 = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = 1,
    .b_group = 1,
    .rows_in_place = false,
    .kc = 256,
    .mc = 14 * 16,
    .nc = 32 * 12,
    .begin = nullptr,
    .end = nullptr,
    .tile = tile,
    .store = store,
    .pack = pack,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
