#define LATHE_ISA_NAMESPACE isa_avx2
#include "lathe/backends/cpu/isa/products/gemm_vectors.h"

namespace lathe::cpu {
namespace isa_avx2 {
namespace {

constexpr int kMr = 6, kNr = 16;  // 12 of 16 registers hold sums

// The products of `count` k from `begin` on; `fresh`: of a tile whose sums begin with 0.  kSteps of them at a
// time: a core that shares its decoders with another thread waits for them, not for its multipliers.
template <int kRows, int kSteps>
void add_products(const GemmTile* t, int64_t begin, int64_t count, bool fresh) {
  __m256 sum[kRows][2];
  float* acc = t->acc;
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = fresh ? _mm256_setzero_ps() : _mm256_load_ps(acc + i * kNr + 8 * j);
  const float* a = static_cast<const float*>(t->a) + begin * kRows;
  const float* b = static_cast<const float*>(t->b) + begin * kNr;
  const char* next = static_cast<const char*>(t->next);
  const char* const next_end = next + t->next_bytes;
  GemmFetch source = t->source;
  for (int64_t k = count; k > 0; k -= kSteps, a += kSteps * kRows, b += kSteps * kNr) {
    if (next < next_end) __builtin_prefetch(next, 0, 2), next += 64;
    if (source.lines > 0) gemm_fetch_line(source);
    LATHE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const __m256 b0 = _mm256_load_ps(b + step * kNr), b1 = _mm256_load_ps(b + step * kNr + 8);
      LATHE_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const __m256 ai = _mm256_broadcast_ss(a + step * kRows + i);
        sum[i][0] = _mm256_fmadd_ps(ai, b0, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(ai, b1, sum[i][1]);
      }
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm256_store_ps(acc + i * kNr + 8 * j, sum[i][j]);
}

// Computes all rows of a panel, also those that are not needed.
template <int kRows>
void tile_of(const GemmTile* t) {
  constexpr int kSteps = 4;
  const int64_t rest = t->k % kSteps, whole = t->k - rest;
  if (whole > 0) add_products<kRows, kSteps>(t, 0, whole, !t->accumulate);
  if (rest > 0) add_products<kRows, 1>(t, whole, rest, !t->accumulate && whole == 0);
}

void tile(const GemmTile* t) {
  if (t->finish != nullptr) store_by_vectors(t->finish);
  static constexpr void (*kTiles[])(const GemmTile*) = {tile_of<1>, tile_of<2>, tile_of<3>,
                                                        tile_of<4>, tile_of<5>, tile_of<6>};
  kTiles[t->a_step_bytes / static_cast<int64_t>(sizeof(float)) - 1](t);
}

}  // namespace
}  // namespace isa_avx2

const GemmKernel kGemmF32Avx2 = {
    .bf16 = false,
    .mr = isa_avx2::kMr,
    .nr = isa_avx2::kNr,
    .a_group = 1,
    .b_group = 1,
    .b_columns = isa_avx2::kNr,
    .rows_in_place = false,
    .any_rows = true,
    .kc = 1024,
    .columns = 256,
    .outruns_stores = false,
    .begin = nullptr,
    .end = nullptr,
    .tile = isa_avx2::tile,
    .store = isa_avx2::store_by_vectors,
    .pack = isa_avx2::pack_by_vectors,
    .column_sums = gemm_column_sums,
};

}  // namespace lathe::cpu
