#define LATHE_ISA_NAMESPACE isa_avx2
#include "lathe/backends/cpu/isa/products/gemm_int8_avx2.h"

// Values lie in 16 bits: their products are added in pairs.

namespace lathe::cpu {
namespace isa_avx2 {
namespace {

struct Dot {
  static constexpr int kWord = 2;
  static __m256i add(__m256i sum, __m256i a, __m256i b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
};

}  // namespace
}  // namespace isa_avx2

const GemmKernel kGemmInt8Avx2 = {
    .bf16 = false,
    .mr = isa_avx2::kMr,
    .nr = isa_avx2::kNr,
    .a_group = isa_avx2::Dot::kWord,
    .b_group = isa_avx2::Dot::kWord,
    .b_columns = isa_avx2::kNr,
    .rows_in_place = true,
    .kc = 512,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = isa_avx2::int8_tile<isa_avx2::Dot>,
    .store = isa_avx2::int8_store,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 2,
    .a_shift = 0,
    .quantize_a = quantize_a<int16_t, 0>,
    .quantize_b = quantize_b<int16_t, 0>,
};

}  // namespace lathe::cpu
