#include "lathe/backends/cpu/isa/products/gemm_avx512.h"

namespace lathe::cpu {
namespace {

struct DotBf16 {
  static constexpr int kWord = 2;
  static __m512 add(__m512 sum, __m512 a, __m512 b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }
};

// Words are two bf16 that follow each other along k.
template <bool kBf16>
struct Source {
  const char* src;
  const GemmPack* p;

  const uint16_t* bf16_at(int64_t at) const { return reinterpret_cast<const uint16_t*>(src) + at; }
  const float* f32_at(int64_t at) const { return reinterpret_cast<const float*>(src) + at; }

  // kWhole: all 16 words of this block's k are there.
  template <bool kWhole>
  __m512i along_k(int64_t line, int64_t k) const {
    const int64_t at = line * p->ld + k, count = kWhole ? 32 : p->k - k;
    const __mmask16 low_lanes = first_lanes(count), high_lanes = first_lanes(count - 16);
    if (kBf16)
      return _mm512_maskz_loadu_epi16(
          static_cast<__mmask32>(low_lanes) | static_cast<__mmask32>(high_lanes) << 16, bf16_at(at));
    const __m512 low = _mm512_maskz_loadu_ps(low_lanes, f32_at(at));
    const __m512 high = _mm512_maskz_loadu_ps(high_lanes, f32_at(at + 16));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
  }
  // Row k from w on, each value in the low half of its word.
  __m512i row(int64_t k, int64_t w, __mmask16 lines) const {
    const int64_t at = k * p->ld + w;
    if (kBf16) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lines, bf16_at(at)));
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lines, f32_at(at))));
  }
  template <bool kWhole>
  __m512i across(int64_t k, int64_t w, __mmask16 lines) const {
    const __m512i none = _mm512_setzero_si512();
    const __m512i even = kWhole || k < p->k ? row(k, w, lines) : none;
    const __m512i odd = kWhole || k + 1 < p->k ? row(k + 1, w, lines) : none;
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
};

}  // namespace

void gemm_pack_avx512bf16(const GemmPack* p) {
  const bool rows = p->group != 2;
  if (p->src_type == GemmType::kBf16)
    rows ? pack_blocks<Source<true>, 2, true>(p) : pack_blocks<Source<true>, 2, false>(p);
  else
    rows ? pack_blocks<Source<false>, 2, true>(p) : pack_blocks<Source<false>, 2, false>(p);
}

const GemmKernel kGemmBf16Avx512Bf16 = {
    .bf16 = true,
    .mr = kMr,
    .nr = kNr,
    .a_group = 2,
    .b_group = 2,
    .b_columns = kNr,
    .rows_in_place = false,
    .any_rows = true,
    .kc = 1024,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = end_stores,
    .tile = tile<DotBf16>,
    .store = store,
    .pack = gemm_pack_avx512bf16,
    .column_sums = gemm_column_sums,
    .fence = end_stores,
};

}  // namespace lathe::cpu
