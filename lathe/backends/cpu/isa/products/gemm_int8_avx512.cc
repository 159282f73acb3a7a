#include "lathe/backends/cpu/isa/products/gemm_int8_avx512.h"

namespace lathe::cpu {
namespace {

// Values lie in 16 bits: their products are added in pairs.
struct Dot {
  static constexpr int kWord = 2;
  static __m512i add(__m512i sum, __m512i a, __m512i b) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  }
};

}  // namespace

const GemmKernel kGemmInt8Avx512 = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = Dot::kWord,
    .b_group = Dot::kWord,
    .b_columns = kNr,
    .rows_in_place = true,
    .kc = 512,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = int8_tile<Dot>,
    .store = int8_store,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 2,
    .a_shift = 0,
    .quantize_a = quantize_a<int16_t, 0>,
    .quantize_b = quantize_b<int16_t, 0>,
};

}  // namespace lathe::cpu
