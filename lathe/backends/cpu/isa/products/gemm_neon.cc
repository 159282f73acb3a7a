#define LATHE_ISA_NAMESPACE isa_neon
#include "lathe/backends/cpu/isa/products/gemm_vectors.h"

namespace lathe::cpu {
namespace isa_neon {
namespace {

constexpr int kMr = 8, kNr = 12;  // 24 of 32 registers hold sums

void tile(const GemmTile* t) {
  if (t->finish != nullptr) store_by_vectors(t->finish);
  float32x4_t sum[kMr][3];
  float* acc = t->acc;
  LATHE_UNROLL
  for (int i = 0; i < kMr; ++i)
    for (int j = 0; j < 3; ++j) sum[i][j] = t->accumulate ? vld1q_f32(acc + i * kNr + 4 * j) : vdupq_n_f32(0);
  const float* a = static_cast<const float*>(t->a);
  const float* b = static_cast<const float*>(t->b);
  for (int64_t k = t->k; k > 0; --k, a += kMr, b += kNr) {
    const float32x4_t low = vld1q_f32(a), high = vld1q_f32(a + 4);
    LATHE_UNROLL
    for (int j = 0; j < 3; ++j) {
      const float32x4_t bj = vld1q_f32(b + 4 * j);
      sum[0][j] = vfmaq_laneq_f32(sum[0][j], bj, low, 0);
      sum[1][j] = vfmaq_laneq_f32(sum[1][j], bj, low, 1);
      sum[2][j] = vfmaq_laneq_f32(sum[2][j], bj, low, 2);
      sum[3][j] = vfmaq_laneq_f32(sum[3][j], bj, low, 3);
      sum[4][j] = vfmaq_laneq_f32(sum[4][j], bj, high, 0);
      sum[5][j] = vfmaq_laneq_f32(sum[5][j], bj, high, 1);
      sum[6][j] = vfmaq_laneq_f32(sum[6][j], bj, high, 2);
      sum[7][j] = vfmaq_laneq_f32(sum[7][j], bj, high, 3);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kMr; ++i)
    for (int j = 0; j < 3; ++j) vst1q_f32(acc + i * kNr + 4 * j, sum[i][j]);
}

}  // namespace
}  // namespace isa_neon

const GemmKernel kGemmF32Neon = {
    .bf16 = false,
    .mr = isa_neon::kMr,
    .nr = isa_neon::kNr,
    .a_group = 1,
    .b_group = 1,
    .b_columns = isa_neon::kNr,
    .rows_in_place = false,
    .kc = 256,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = isa_neon::tile,
    .store = isa_neon::store_by_vectors,
    .pack = isa_neon::pack_by_vectors,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
