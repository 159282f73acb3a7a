#define LATHE_ISA_NAMESPACE isa_avx2vnni
#include "lathe/backends/cpu/isa/products/gemm_int8_avx2.h"

namespace lathe::cpu {
namespace isa_avx2vnni {
namespace {

constexpr int kShift = 128;  // the instruction multiplies unsigned by signed bytes

struct Dot {
  static constexpr int kWord = 4;
  static __m256i add(__m256i sum, __m256i a, __m256i b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
};

}  // namespace
}  // namespace isa_avx2vnni

const GemmKernel kGemmInt8Avx2Vnni = {
    .bf16 = false,
    .mr = isa_avx2vnni::kMr,
    .nr = isa_avx2vnni::kNr,
    .a_group = isa_avx2vnni::Dot::kWord,
    .b_group = isa_avx2vnni::Dot::kWord,
    .b_columns = isa_avx2vnni::kNr,
    .rows_in_place = true,
    .kc = 1024,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = isa_avx2vnni::int8_tile<isa_avx2vnni::Dot>,
    .store = isa_avx2vnni::int8_store,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 1,
    .a_shift = isa_avx2vnni::kShift,
    .quantize_a = quantize_a<uint8_t, isa_avx2vnni::kShift>,
    .quantize_b = quantize_b<int8_t, isa_avx2vnni::kShift>,
};

}  // namespace lathe::cpu
