#include <arm_neon.h>

#include "lathe/backends/cpu/isa/products/gemm_int8_plain.h"

// SDOT adds the products of four values along k: 16 values of a row of a serve four steps.

namespace lathe::cpu {
namespace {

constexpr int kMr = 5, kNr = 16, kGroup = 16, kWord = 4;  // 20 of 32 registers hold sums

template <int kLane>
void multiply(int32x4_t sum[kMr][kNr / 4], const int8x16_t* a, const int8_t* b) {
  LATHE_UNROLL
  for (int j = 0; j < kNr / 4; ++j) {
    const int8x16_t columns = vld1q_s8(b + (kLane * kNr + 4 * j) * kWord);
    for (int i = 0; i < kMr; ++i) sum[i][j] = vdotq_laneq_s32(sum[i][j], columns, a[i], kLane);
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
  const int8_t* a = static_cast<const int8_t*>(t->a);
  const int8_t* b = static_cast<const int8_t*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kGroup, a += kGroup, b += kGroup * kNr) {
    int8x16_t rows[kMr];
    LATHE_UNROLL
    for (int i = 0; i < kMr; ++i) rows[i] = vld1q_s8(a + i * t->a_row_bytes);
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

const GemmKernel kGemmInt8NeonDot = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = kGroup,
    .b_group = kWord,
    .b_columns = kNr,
    .rows_in_place = true,
    .kc = 1024,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = tile,
    .store = int8_store_plain,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 1,
    .a_shift = 0,
    .quantize_a = quantize_a<int8_t, 0>,
    .quantize_b = quantize_b<int8_t, 0>,
};

}  // namespace lathe::cpu
