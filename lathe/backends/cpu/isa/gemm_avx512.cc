#include "lathe/backends/cpu/isa/gemm_avx512.h"

namespace lathe::cpu {
namespace {

struct DotF32 {
  static constexpr int kWord = 1;
  static __m512 add(__m512 sum, __m512 a, __m512 b) { return _mm512_fmadd_ps(a, b, sum); }
};

// Words are f32; kRound: the source is f32, and its values are rounded to bf16.
template <bool kBf16, bool kRound>
struct Source {
  const char* src;
  const GemmPack* p;

  __m512i words(int64_t at, int64_t count) const {
    const __mmask16 lanes = first_lanes(count);
    if (kBf16)
      return _mm512_castps_si512(
          widen_bf16(_mm256_maskz_loadu_epi16(lanes, reinterpret_cast<const uint16_t*>(src) + at)));
    const __m512 value = _mm512_maskz_loadu_ps(lanes, reinterpret_cast<const float*>(src) + at);
    return kRound ? _mm512_slli_epi32(round_to_bf16(value), 16) : _mm512_castps_si512(value);
  }
  __m512i along_k(int64_t w, int64_t k) const {
    return w < p->width ? words(w * p->ld + k, p->k - k) : _mm512_setzero_si512();
  }
  __m512i across(int64_t k, int64_t w) const {
    return k < p->k ? words(k * p->ld + w, p->width - w) : _mm512_setzero_si512();
  }
};

void pack(const GemmPack* p) {
  if (p->src_bf16)
    pack_blocks<Source<true, false>, 1, false>(p);
  else if (p->round)
    pack_blocks<Source<false, true>, 1, false>(p);
  else
    pack_blocks<Source<false, false>, 1, false>(p);
}

}  // namespace

const GemmKernel kGemmF32Avx512 = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = 1,
    .b_group = 1,
    .rows_in_place = false,
    .kc = 256,
    .columns = 512,
    .begin = nullptr,
    .end = end_stores,
    .tile = tile<DotF32>,
    .store = store,
    .pack = pack,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
