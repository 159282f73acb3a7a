#include <arm_neon.h>

#include "lathe/backends/cpu/isa/products/gemm_int8_plain.h"

// Values lie in 16 bits: lanes of a row of a multiply four columns of b.

namespace lathe::cpu {
namespace {

constexpr int kMr = 6, kNr = 16, kGroup = 4;  // 24 of 32 registers hold sums

template <int kLane>
void multiply(int32x4_t sum[kMr][kNr / 4], const int16x4_t* a, const int16_t* b) {
  LATHE_UNROLL
  for (int j = 0; j < kNr / 4; ++j) {
    const int16x4_t column = vld1_s16(b + kLane * kNr + 4 * j);
    for (int i = 0; i < kMr; ++i) sum[i][j] = vmlal_lane_s16(sum[i][j], column, a[i], kLane);
  }
}

void tile(const GemmTile* t) {
  if (t->finish != nullptr) int8_store_plain(t->finish);
  int32_t* acc = reinterpret_cast<int32_t*>(t->acc);
  int32x4_t sum[kMr][kNr / 4];
  LATHE_UNROLL
  for (int i = 0; i < kMr; ++i)
    for (int j = 0; j < kNr / 4; ++j)
      sum[i][j] = t->accumulate ? vld1q_s32(acc + i * kNr + 4 * j) : vdupq_n_s32(0);
  const char* a = static_cast<const char*>(t->a);
  const int16_t* b = static_cast<const int16_t*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kGroup, a += 2 * kGroup, b += kGroup * kNr) {
    int16x4_t rows[kMr];
    LATHE_UNROLL
    for (int i = 0; i < kMr; ++i)
      rows[i] = vld1_s16(reinterpret_cast<const int16_t*>(a + i * t->a_row_bytes));
    multiply<0>(sum, rows, b);
    multiply<1>(sum, rows, b);
    multiply<2>(sum, rows, b);
    multiply<3>(sum, rows, b);
  }
  LATHE_UNROLL
  for (int i = 0; i < kMr; ++i)
    for (int j = 0; j < kNr / 4; ++j) vst1q_s32(acc + i * kNr + 4 * j, sum[i][j]);
}

}  // namespace

const GemmKernel kGemmInt8Neon = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = kGroup,
    .b_group = 1,
    .b_columns = kNr,
    .rows_in_place = true,
    .kc = 512,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = tile,
    .store = int8_store_plain,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 2,
    .a_shift = 0,
    .quantize_a = quantize_a<int16_t, 0>,
    .quantize_b = quantize_b<int16_t, 0>,
};

}  // namespace lathe::cpu
