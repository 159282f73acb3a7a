#include "lathe/backends/cpu/isa/products/gemm_avx512.h"

namespace lathe::cpu {
namespace {

struct DotF32 {
  static constexpr int kWord = 1;
  static __m512 add(__m512 sum, __m512 a, __m512 b) { return _mm512_fmadd_ps(a, b, sum); }
};

// Words are f32; kRound: what values of an f32 source are rounded to.
template <GemmType kType, GemmType kRound>
struct Source {
  const char* src;
  const GemmPack* p;

  __m512i words(int64_t at, __mmask16 lanes) const {
    if (kType != GemmType::kF32) {
      const __m256i halves = _mm256_maskz_loadu_epi16(lanes, reinterpret_cast<const uint16_t*>(src) + at);
      return _mm512_castps_si512(kType == GemmType::kBf16 ? widen_bf16(halves) : widen_f16(halves));
    }
    const __m512 value = _mm512_maskz_loadu_ps(lanes, reinterpret_cast<const float*>(src) + at);
    if (kRound == GemmType::kBf16) return _mm512_slli_epi32(round_to_bf16(value), 16);
    return _mm512_castps_si512(kRound == GemmType::kF16 ? widen_f16(narrow_f16(value)) : value);
  }
  // kWhole: all 16 words of this block's k are there.
  template <bool kWhole>
  __m512i along_k(int64_t line, int64_t k) const {
    return words(line * p->ld + k, kWhole ? 0xffff : first_lanes(p->k - k));
  }
  template <bool kWhole>
  __m512i across(int64_t k, int64_t w, __mmask16 lines) const {
    return kWhole || k < p->k ? words(k * p->ld + w, lines) : _mm512_setzero_si512();
  }
};

void pack(const GemmPack* p) {
  constexpr GemmType kF32 = GemmType::kF32, kBf16 = GemmType::kBf16, kF16 = GemmType::kF16;
  if (p->src_type == kBf16)
    pack_blocks<Source<kBf16, kF32>, 1, false>(p);
  else if (p->src_type == kF16)
    pack_blocks<Source<kF16, kF32>, 1, false>(p);
  else if (p->round == kBf16)
    pack_blocks<Source<kF32, kBf16>, 1, false>(p);
  else if (p->round == kF16)
    pack_blocks<Source<kF32, kF16>, 1, false>(p);
  else
    pack_blocks<Source<kF32, kF32>, 1, false>(p);
}

}  // namespace

const GemmKernel kGemmF32Avx512 = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = 1,
    .b_group = 1,
    .b_columns = kNr,
    .rows_in_place = false,
    .any_rows = true,
    .kc = 1024,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = end_stores,
    .tile = tile<DotF32>,
    .store = store,
    .pack = pack,
    .column_sums = gemm_column_sums,
    .fence = end_stores,
};

}  // namespace lathe::cpu
