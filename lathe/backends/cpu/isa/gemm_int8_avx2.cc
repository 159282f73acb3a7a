#include <immintrin.h>

#include "lathe/backends/cpu/isa/gemm_int8_plain.h"

// Values lie in 16 bits: their products are added in pairs.

namespace lathe::cpu {
namespace {

constexpr int kMr = 6, kNr = 16, kWord = 2;  // 12 of 16 registers hold sums

template <int kRows>
void tile_of(const GemmTile* t) {
  __m256i sum[kRows][2];
  __m256i* acc = reinterpret_cast<__m256i*>(t->acc);
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm256_load_si256(acc + 2 * i + j) : _mm256_setzero_si256();
  const char* a = static_cast<const char*>(t->a);
  const __m256i* b = static_cast<const __m256i*>(t->b);
  for (int64_t k = t->k / kWord; k > 0; --k, a += 4, b += 2) {
    const __m256i b0 = _mm256_load_si256(b), b1 = _mm256_load_si256(b + 1);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      int32_t word;
      memcpy(&word, a + i * t->a_row_bytes, sizeof word);
      const __m256i ai = _mm256_set1_epi32(word);
      sum[i][0] = _mm256_add_epi32(sum[i][0], _mm256_madd_epi16(ai, b0));
      sum[i][1] = _mm256_add_epi32(sum[i][1], _mm256_madd_epi16(ai, b1));
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm256_store_si256(acc + 2 * i + j, sum[i][j]);
}

void tile(const GemmTile* t) {
  if (t->finish != nullptr) int8_store_plain(t->finish);
  static constexpr void (*kTiles[])(const GemmTile*) = {tile_of<1>, tile_of<2>, tile_of<3>,
                                                        tile_of<4>, tile_of<5>, tile_of<6>};
  kTiles[t->rows - 1](t);
}

}  // namespace

const GemmKernel kGemmInt8Avx2 = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = kWord,
    .b_group = kWord,
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
