#include "lathe/backends/cpu/isa/products/gemm_int8_avx512.h"

namespace lathe::cpu {
namespace {

constexpr int kShift = 128;  // the instruction multiplies unsigned by signed bytes

struct Dot {
  static constexpr int kWord = 4;
  static __m512i add(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
};

}  // namespace

const GemmKernel kGemmInt8Avx512Vnni = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = Dot::kWord,
    .b_group = Dot::kWord,
    .b_columns = kNr,
    .rows_in_place = true,
    .kc = 1024,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = int8_tile<Dot>,
    .store = int8_store,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 1,
    .a_shift = kShift,
    .quantize_a = quantize_a<uint8_t, kShift>,
    .quantize_b = quantize_b<int8_t, kShift>,
};

}  // namespace lathe::cpu
