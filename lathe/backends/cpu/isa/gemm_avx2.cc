#include <immintrin.h>

#include "lathe/backends/cpu/isa/gemm_plain.h"

namespace lathe::cpu {
namespace {

constexpr int kMr = 6, kNr = 16;  // 12 of 16 registers hold sums

template <int kRows>
void tile_of(const GemmTile* t) {
  __m256 sum[kRows][2];
  float* acc = t->acc;
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm256_load_ps(acc + i * kNr + 8 * j) : _mm256_setzero_ps();
  const float* a = static_cast<const float*>(t->a);
  const float* b = static_cast<const float*>(t->b);
  for (int64_t k = t->k; k > 0; --k, a += kMr, b += kNr) {
    const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const __m256 ai = _mm256_broadcast_ss(a + i);
      sum[i][0] = _mm256_fmadd_ps(ai, b0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(ai, b1, sum[i][1]);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm256_store_ps(acc + i * kNr + 8 * j, sum[i][j]);
}

void tile(const GemmTile* t) {
  if (t->finish != nullptr) gemm_store_plain(t->finish);
  static constexpr void (*kTiles[])(const GemmTile*) = {tile_of<1>, tile_of<2>, tile_of<3>,
                                                        tile_of<4>, tile_of<5>, tile_of<6>};
  kTiles[t->rows - 1](t);
}

}  // namespace

const GemmKernel kGemmF32Avx2 = {
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
