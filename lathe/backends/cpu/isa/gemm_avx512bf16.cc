#include "lathe/backends/cpu/isa/gemm_avx512.h"

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

  __m512i along_k(int64_t w, int64_t k) const {
    if (w >= p->width) return _mm512_setzero_si512();
    const int64_t at = w * p->ld + k, count = p->k - k;
    if (kBf16) {
      const __mmask32 lanes =
          static_cast<__mmask32>(first_lanes(count)) | static_cast<__mmask32>(first_lanes(count - 16)) << 16;
      return _mm512_maskz_loadu_epi16(lanes, bf16_at(at));
    }
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), f32_at(at));
    const __m512 high = _mm512_maskz_loadu_ps(first_lanes(count - 16), f32_at(at + 16));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
  }
  // Row k from w on, each value in the low half of its word.
  __m512i row(int64_t k, int64_t w) const {
    if (k >= p->k) return _mm512_setzero_si512();
    const __mmask16 lanes = first_lanes(p->width - w);
    const int64_t at = k * p->ld + w;
    if (kBf16) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, bf16_at(at)));
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, f32_at(at))));
  }
  __m512i across(int64_t k, int64_t w) const {
    return _mm512_or_si512(row(k, w), _mm512_slli_epi32(row(k + 1, w), 16));
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
    .rows_in_place = false,
    .kc = 512,
    .columns = 512,
    .begin = nullptr,
    .end = end_stores,
    .tile = tile<DotBf16>,
    .store = store,
    .pack = gemm_pack_avx512bf16,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
