#include "lathe/backends/cpu/isa/products/gemm_plain.h"

namespace lathe::cpu {
namespace {

constexpr int kMr = 4, kNr = 8;

void tile(const GemmTile* t) {
  if (t->finish != nullptr) gemm_store_plain(t->finish);
  float acc[kMr][kNr] = {};
  if (t->accumulate) memcpy(acc, t->acc, sizeof acc);
  const float* a = static_cast<const float*>(t->a);
  const float* b = static_cast<const float*>(t->b);
  for (int64_t k = 0; k < t->k; ++k, a += kMr, b += kNr)
    for (int i = 0; i < kMr; ++i)
      for (int j = 0; j < kNr; ++j) acc[i][j] += a[i] * b[j];
  memcpy(t->acc, acc, sizeof acc);
}

}  // namespace

const GemmKernel kGemmF32Portable = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = 1,
    .b_group = 1,
    .b_columns = kNr,
    .rows_in_place = false,
    .kc = 256,
    .columns = 512,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = tile,
    .store = gemm_store_plain,
    .pack = gemm_pack_f32,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
