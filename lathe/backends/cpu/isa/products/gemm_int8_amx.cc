#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/products/gemm_int8_avx512.h"
#include "lathe/backends/cpu/isa/products/gemm_meanwhile.h"

// The same tiles as gemm_amx.cc, with 64 bytes of k a step.

namespace lathe::cpu {
namespace {

constexpr int kTileMr = 32, kTileNr = 32, kStep = 64;  // kStep: elements of k in a product
constexpr int kAccBytes = kTileNr * 4, kBBytes = kTileNr * 4;

void end() { _tile_release(); }

template <bool kBothHalves>
void tile_of(const GemmTile* t) {
  float* acc = t->acc;
  float* below = acc + 16 * kTileNr;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (t->accumulate) {
    _tile_loadd(0, acc, kAccBytes);
    _tile_loadd(1, acc + 16, kAccBytes);
    if (kBothHalves) {
      _tile_loadd(2, below, kAccBytes);
      _tile_loadd(3, below + 16, kAccBytes);
    }
  }
  Meanwhile<int8_store_rows_of, kStep> meanwhile(t);
  const char* a = static_cast<const char*>(t->a);
  const char* a_below = a + 16 * t->a_row_bytes;
  const char* b = static_cast<const char*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kStep, a += kStep, a_below += kStep, b += kStep / 4 * kBBytes) {
    _tile_loadd(6, b, kBBytes);
    _tile_stream_loadd(4, a, t->a_row_bytes);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, b + 64, kBBytes);
    _tile_dpbssd(1, 4, 7);
    meanwhile.step();
    if (!kBothHalves) continue;
    _tile_stream_loadd(5, a_below, t->a_row_bytes);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_stored(0, acc, kAccBytes);
  _tile_stored(1, acc + 16, kAccBytes);
  if (!kBothHalves) return;
  _tile_stored(2, below, kAccBytes);
  _tile_stored(3, below + 16, kAccBytes);
}

void tile_int8(const GemmTile* t) { t->rows > 16 ? tile_of<true>(t) : tile_of<false>(t); }

}  // namespace

const GemmKernel kGemmInt8Amx = {
    .bf16 = false,
    .mr = kTileMr,
    .nr = kTileNr,
    .a_group = kStep,
    .b_group = 4,
    .b_columns = kTileNr,
    .rows_in_place = true,
    .kc = 768,
    .columns = kTileNr,
    .outruns_stores = false,
    .begin = configure_tiles,
    .end = end,
    .tile = tile_int8,
    .store = int8_store,
    .pack = nullptr,
    .column_sums = nullptr,
    .integer_bytes = 1,
    .a_shift = 0,
    .quantize_a = quantize_a<int8_t, 0>,
    .quantize_b = quantize_b<int8_t, 0>,
};

}  // namespace lathe::cpu
