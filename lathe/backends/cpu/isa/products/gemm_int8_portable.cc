#include "lathe/backends/cpu/isa/products/gemm_int8_plain.h"

namespace lathe::cpu {
namespace {

constexpr int kMr = 4, kNr = 8;

void tile(const GemmTile* t) {
  if (t->finish != nullptr) int8_store_plain(t->finish);
  int32_t acc[kMr][kNr] = {};
  if (t->accumulate) memcpy(acc, t->acc, sizeof acc);
  const int8_t* a = static_cast<const int8_t*>(t->a);
  const int8_t* b = static_cast<const int8_t*>(t->b);
  for (int64_t k = 0; k < t->k; ++k, b += kNr)
    for (int i = 0; i < t->rows; ++i)
      for (int j = 0; j < kNr; ++j) acc[i][j] += a[i * t->a_row_bytes + k] * b[j];
  memcpy(t->acc, acc, sizeof acc);
}

}  // namespace

const GemmKernel kGemmInt8Portable = {
    .bf16 = false,
    .mr = kMr,
    .nr = kNr,
    .a_group = 1,
    .b_group = 1,
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
