#pragma once
#include <immintrin.h>

#include "lathe/backends/cpu/isa/avx512_shared.h"
#include "lathe/backends/cpu/isa/products/gemm_plain.h"

// What the AVX-512 levels share.  Each file that includes this gets its own copy, compiled with its own
// flags. The unit of packing is a "word": one f32, or two bf16 that follow each other along k.

namespace lathe::cpu {
namespace {

[[maybe_unused]] constexpr int kMr = 14, kNr = 32;  // 28 of 32 registers hold sums
static_assert(kMr <= 16 && kNr % 16 == 0, "panels that pack_panel can write in whole registers");

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

inline __m512 widen_f16(__m256i x) { return _mm512_maskz_cvtph_ps(0xffff, x); }
inline __m256i narrow_f16(__m512 x) {
  return _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// bf16 of 16 floats: with the instruction where there is one (denormals become zero).
inline __m256i narrow(__m512 x) {
#if defined(__AVX512BF16__)
  return (__m256i)_mm512_cvtneps_pbh(x);
#else
  return _mm512_cvtepi32_epi16(round_to_bf16(x));
#endif
}

// Words under `lanes`, which come first.  No mask where all are meant: a masked store takes Zen 4 many
// cycles.
inline void store_words(void* to, __mmask16 lanes, __m512i words) {
  if (lanes == 0xffff)
    _mm512_storeu_si512(to, words);
  else
    _mm512_mask_storeu_epi32(to, lanes, words);
}
inline void store_halves(void* to, __mmask16 lanes, __m256i halves) {
  if (lanes == 0xffff)
    _mm256_storeu_si256(static_cast<__m256i*>(to), halves);
  else
    _mm256_mask_storeu_epi16(to, lanes, halves);
}

// kWhole: columns in full registers.
template <GemmType kType, bool kWhole>
void store_rows_as(const GemmStore* s, int begin, int end) {
  for (int64_t i = begin; i < end; ++i) {
    float* c = static_cast<float*>(s->c) + i * s->ldc;
    uint16_t* c16 = static_cast<uint16_t*>(s->c) + i * s->ldc;
    for (int64_t j = 0; j < s->cols; j += 16) {
      const __mmask16 lanes = kWhole ? 0xffff : first_lanes(s->cols - j);
      __m512 value = _mm512_maskz_loadu_ps(lanes, s->acc + i * s->acc_ld + j);
      if (s->bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, s->bias + j));
      if (s->addend != nullptr) {
        const float* more = static_cast<const float*>(s->addend) + i * s->ldc + j;
        const uint16_t* more16 = static_cast<const uint16_t*>(s->addend) + i * s->ldc + j;
        value = _mm512_add_ps(value, kType == GemmType::kF32 ? _mm512_maskz_loadu_ps(lanes, more)
                                     : kType == GemmType::kBf16
                                         ? widen_bf16(_mm256_maskz_loadu_epi16(lanes, more16))
                                         : widen_f16(_mm256_maskz_loadu_epi16(lanes, more16)));
      }
      const bool streams = s->streams && lanes == 0xffff;
      if (kType != GemmType::kF32) {
        const __m256i halves = kType == GemmType::kBf16 ? narrow(value) : narrow_f16(value);
        if (streams && reinterpret_cast<uintptr_t>(c16 + j) % 32 == 0)
          _mm256_stream_si256(reinterpret_cast<__m256i*>(c16 + j), halves);
        else
          store_halves(c16 + j, lanes, halves);
      } else if (streams && reinterpret_cast<uintptr_t>(c + j) % 64 == 0) {
        _mm512_stream_ps(c + j, value);
      } else {
        store_words(c + j, lanes, _mm512_castps_si512(value));
      }
    }
  }
}

#if defined(__AVX512BF16__)
// Rows of 32 bf16 that are cache lines: half as many stores.
template <bool kBias, bool kAddend>
void store_lines(const GemmStore* s, int begin, int end) {
  const __m512 bias = kBias ? _mm512_loadu_ps(s->bias) : _mm512_setzero_ps();
  const __m512 bias2 = kBias ? _mm512_loadu_ps(s->bias + 16) : _mm512_setzero_ps();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t at = i * s->ldc * 2;
    __m512 first = _mm512_loadu_ps(s->acc + i * s->acc_ld),
           second = _mm512_loadu_ps(s->acc + i * s->acc_ld + 16);
    if (kBias) first = _mm512_add_ps(first, bias), second = _mm512_add_ps(second, bias2);
    if (kAddend) {
      const __m512i more = _mm512_loadu_si512(static_cast<const char*>(s->addend) + at);
      first = _mm512_add_ps(first, widen_bf16(_mm512_castsi512_si256(more)));
      second = _mm512_add_ps(second, widen_bf16(_mm512_extracti64x4_epi64(more, 1)));
    }
    const __m512i line = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    char* const to = static_cast<char*>(s->c) + at;
    if (s->streams)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
    else
      _mm512_store_si512(to, line);
  }
}
#endif

// Stores rows [begin, end) of such a store.
inline auto store_rows_of(const GemmStore* s) -> void (*)(const GemmStore*, int begin, int end) {
  constexpr GemmType kF32 = GemmType::kF32, kBf16 = GemmType::kBf16, kF16 = GemmType::kF16;
#if defined(__AVX512BF16__)
  if (s->c_type == kBf16 && s->cols == 32 && s->ldc % 32 == 0 &&
      reinterpret_cast<uintptr_t>(s->c) % 64 == 0) {
    if (s->addend != nullptr) return s->bias != nullptr ? store_lines<true, true> : store_lines<false, true>;
    return s->bias != nullptr ? store_lines<true, false> : store_lines<false, false>;
  }
#endif
  const bool whole = s->cols % 16 == 0;
  if (s->c_type == kF32) return whole ? store_rows_as<kF32, true> : store_rows_as<kF32, false>;
  if (s->c_type == kBf16) return whole ? store_rows_as<kBf16, true> : store_rows_as<kBf16, false>;
  return whole ? store_rows_as<kF16, true> : store_rows_as<kF16, false>;
}
[[maybe_unused]] void store(const GemmStore* s) { store_rows_of(s)(s, 0, s->rows); }

// Words to where `streams` writes them past the caches; aligned to 64 then.
inline void store_packed(int32_t* to, bool streams, __m512i words) {
  if (streams)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), words);
  else
    _mm512_storeu_si512(to, words);
}

// Packs the block of 16 x 16 words from word k of line w on, of which `source` gives rows: lines of the panel
// (kAlong: lines of the source run along k) or k.  kWord: elements of a word; kRows: lines of the panel
// become rows of dst; kWhole: all 16 words of k are there; kFull: all 16 lines as well, and nothing is
// masked.
template <typename Source, int kWord, bool kRows, bool kAlong, bool kWhole, bool kFull>
inline void pack_block(const Source& source, const GemmPack* p, int64_t k, int64_t w, bool streams) {
  int32_t* dst = static_cast<int32_t*>(p->dst);
  const int64_t k_words = p->k_padded / kWord;
  const __mmask16 lines = kFull ? 0xffff : first_lanes(p->width - w);
  const auto row = [&](int i) {
    if (!kAlong) return source.template across<kWhole>((k + i) * kWord, w, lines);
    return (lines >> i & 1) == 0 ? _mm512_setzero_si512() : source.template along_k<kWhole>(w + i, k * kWord);
  };
  // Registers of words follow each other, or lie in rows of the panel.
  const bool follow = kRows || p->columns < p->panel;
  int32_t* const first = dst + k * p->panel + (follow ? w * 16 : w);
  const int64_t step = follow ? 16 : p->panel;
  // A panel of less than 16 words is written beyond its end; the next k overwrites that.
  const auto put = [&](int i, __m512i words) {
    int32_t* const to = first + i * step;
    if (kFull || (kRows ? w + i < p->panel : k + 16 < k_words))
      store_packed(to, streams, words);
    else if (!kRows && k + i < k_words)
      store_words(to, first_lanes(p->panel - w), words);
  };
  if (kAlong == kRows) {
    LATHE_UNROLL
    for (int i = 0; i < 16; ++i) put(i, row(i));
    return;
  }
  __m512i rows[16];
  LATHE_UNROLL
  for (int i = 0; i < 16; ++i) rows[i] = row(i);
  transpose16(rows);
  LATHE_UNROLL
  for (int i = 0; i < 16; ++i) put(i, rows[i]);
}

template <typename Source, int kWord, bool kRows, bool kAlong>
void pack_panel(const GemmPack* p) {
  const Source source{static_cast<const char*>(p->src), p};
  const bool streams = p->streams && p->panel % 16 == 0 && reinterpret_cast<uintptr_t>(p->dst) % 64 == 0;
  for (int64_t k = 0; k < p->k_padded / kWord; k += 16)
    for (int64_t w = 0; w < p->panel; w += 16) {
      const bool whole = (k + 16) * kWord <= p->k;
      if (whole && w + 16 <= p->width)
        pack_block<Source, kWord, kRows, kAlong, true, true>(source, p, k, w, streams);
      else if (whole)
        pack_block<Source, kWord, kRows, kAlong, true, false>(source, p, k, w, streams);
      else
        pack_block<Source, kWord, kRows, kAlong, false, false>(source, p, k, w, streams);
    }
}

template <typename Source, int kWord, bool kRows>
void pack_blocks(const GemmPack* p) {
  p->along_k ? pack_panel<Source, kWord, kRows, true>(p) : pack_panel<Source, kWord, kRows, false>(p);
}

// The first line of each row (all of it in bf16) that the store of this tile will add.  They are fetched all
// at once, because a tile's loop has no register left to do it little by little.
[[gnu::always_inline]] inline void fetch_addend(const GemmTile* t) {
  const char* row = t->addend;
  if (row == nullptr) return;
  for (int i = 0; i < t->rows; ++i, row += t->addend_row_bytes) _mm_prefetch(row, _MM_HINT_T1);
}

// A tile of kRows x 32 sums.  Dot: adds the products of the words of two registers.
template <typename Dot, int kRows>
void tile_of(const GemmTile* t) {
  __m512 sum[kRows][2];
  float* acc = t->acc;
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm512_load_ps(acc + i * kNr + 16 * j) : _mm512_setzero_ps();
  const float* a = static_cast<const float*>(t->a);
  const float* b = static_cast<const float*>(t->b);
  const char* next = static_cast<const char*>(t->next);
  const char* const next_end = next + t->next_bytes;
  GemmFetch source = t->source;
  fetch_addend(t);
  const int64_t step = t->a_step_bytes / static_cast<int64_t>(sizeof(float));
  for (int64_t k = t->k / Dot::kWord; k > 0; --k, a += step, b += kNr) {
    if (next < next_end) _mm_prefetch(next, _MM_HINT_T1), next += 64;
    if (source.lines > 0) gemm_fetch_line(source);
    const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m512 ai = _mm512_set1_ps(a[i]);
      sum[i][0] = Dot::add(sum[i][0], ai, b0);
      sum[i][1] = Dot::add(sum[i][1], ai, b1);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm512_store_ps(acc + i * kNr + 16 * j, sum[i][j]);
}

template <typename Dot>
void tile(const GemmTile* t) {
  static constexpr void (*kTiles[])(const GemmTile*) = {
      tile_of<Dot, 1>,  tile_of<Dot, 2>,  tile_of<Dot, 3>,  tile_of<Dot, 4>, tile_of<Dot, 5>,
      tile_of<Dot, 6>,  tile_of<Dot, 7>,  tile_of<Dot, 8>,  tile_of<Dot, 9>, tile_of<Dot, 10>,
      tile_of<Dot, 11>, tile_of<Dot, 12>, tile_of<Dot, 13>, tile_of<Dot, 14>};
  if (t->finish != nullptr) store(t->finish);
  kTiles[t->rows - 1](t);
}

}  // namespace
}  // namespace lathe::cpu
