#include <arm_neon.h>

#include "lathe/backends/cpu/isa/products/gemm_plain.h"

// BFMMLA multiplies 2 x 4 by 4 x 2: sums, a and b come in pairs of lines, k in groups of 4.

namespace lathe::cpu {
namespace {

constexpr int kMr = 8, kNr = 12, kGroup = 4;  // 24 of 32 registers hold sums

// Register (i, j) holds rows 2i, 2i + 1 of columns 2j, 2j + 1.
void load_sums(const float* acc, float32x4_t sum[kMr / 2][kNr / 2]) {
  LATHE_UNROLL
  for (int i = 0; i < kMr / 2; ++i)
    for (int j = 0; j < kNr / 2; ++j) {
      const float* at = acc + 2 * i * kNr + 2 * j;
      sum[i][j] = vcombine_f32(vld1_f32(at), vld1_f32(at + kNr));
    }
}

void tile(const GemmTile* t) {
  if (t->finish != nullptr) gemm_store_plain(t->finish);
  float32x4_t sum[kMr / 2][kNr / 2] = {};
  if (t->accumulate) load_sums(t->acc, sum);
  const bfloat16_t* a = static_cast<const bfloat16_t*>(t->a);
  const bfloat16_t* b = static_cast<const bfloat16_t*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kGroup, a += kMr * kGroup, b += kNr * kGroup) {
    bfloat16x8_t rows[kMr / 2];
    LATHE_UNROLL
    for (int i = 0; i < kMr / 2; ++i) rows[i] = vld1q_bf16(a + 8 * i);
    LATHE_UNROLL
    for (int j = 0; j < kNr / 2; ++j) {
      const bfloat16x8_t columns = vld1q_bf16(b + 8 * j);
      for (int i = 0; i < kMr / 2; ++i) sum[i][j] = vbfmmlaq_f32(sum[i][j], rows[i], columns);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kMr / 2; ++i)
    for (int j = 0; j < kNr / 2; ++j) {
      float* at = t->acc + 2 * i * kNr + 2 * j;
      vst1_f32(at, vget_low_f32(sum[i][j]));
      vst1_f32(at + kNr, vget_high_f32(sum[i][j]));
    }
}

uint16_t narrowed(const GemmPack* p, int64_t at) {
  return p->src_type == GemmType::kBf16 ? static_cast<const uint16_t*>(p->src)[at]
                                        : gemm_narrow(static_cast<const float*>(p->src)[at]);
}

void pack(const GemmPack* p) {
  uint16_t* dst = static_cast<uint16_t*>(p->dst);
  for (int64_t k = 0; k < p->k_padded; k += kGroup)
    for (int64_t w = 0; w < p->panel; ++w)
      for (int64_t g = 0; g < kGroup; ++g) {
        const int64_t line = p->along_k ? w : k + g, at = p->along_k ? k + g : w;
        *dst++ = w < p->width && k + g < p->k ? narrowed(p, line * p->ld + at) : 0;
      }
}

}  // namespace

const GemmKernel kGemmBf16NeonBf16 = {
    .bf16 = true,
    .mr = kMr,
    .nr = kNr,
    .a_group = kGroup,
    .b_group = kGroup,
    .b_columns = kNr,
    .rows_in_place = false,
    .kc = 512,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = tile,
    .store = gemm_store_plain,
    .pack = pack,
    .column_sums = nullptr,
};

}  // namespace lathe::cpu
