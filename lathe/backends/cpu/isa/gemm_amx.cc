#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/gemm_avx512.h"
#include "lathe/backends/cpu/isa/gemm_meanwhile.h"

// Tiles 0-3 hold 32 x 32 sums, 4 and 5 rows of a, 6 and 7 columns of b: four loads feed four products.
//
// The products take 64 cycles a step, the loads that feed them half of that, as far as b lies in the first
// cache; a comes from the second past it (hence the streaming loads).  What is left of a step does the vector
// unit's work: an earlier tile is stored, and the next panel of b fetched.  k is hardly ever cut: sixteen
// threads wait longer for sums to be stored and loaded again than for long panels of b, and one or two are as
// fast either way (docs/results_cpu.md).

namespace lathe::cpu {
namespace {

constexpr int kTileMr = 32, kTileNr = 32, kStep = 32;  // elements of k in a product
constexpr int kAccBytes = kTileNr * 4, kBBytes = kTileNr * 4;

void end() {
  _tile_release();
  end_stores();
}

void tile_32(const GemmTile* t) {
  float* acc = t->acc;
  float* below = acc + 16 * kTileNr;
  if (t->accumulate) {
    _tile_loadd(0, acc, kAccBytes);
    _tile_loadd(1, acc + 16, kAccBytes);
    _tile_loadd(2, below, kAccBytes);
    _tile_loadd(3, below + 16, kAccBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  Meanwhile<store_rows, kStep> meanwhile(t);
  const char* a = static_cast<const char*>(t->a);
  const char* a_below = a + 16 * t->a_row_bytes;
  const char* b = static_cast<const char*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kStep) {
    _tile_loadd(6, b, kBBytes);
    _tile_stream_loadd(4, a, t->a_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 64, kBBytes);
    _tile_dpbf16ps(1, 4, 7);
    meanwhile.step();
    _tile_stream_loadd(5, a_below, t->a_row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    a += t->a_step_bytes;
    a_below += t->a_step_bytes;
    b += kStep / 2 * kBBytes;
  }
  _tile_stored(0, acc, kAccBytes);
  _tile_stored(1, acc + 16, kAccBytes);
  _tile_stored(2, below, kAccBytes);
  _tile_stored(3, below + 16, kAccBytes);
}

void tile_16(const GemmTile* t) {
  float* acc = t->acc;
  if (t->accumulate) {
    _tile_loadd(0, acc, kAccBytes);
    _tile_loadd(1, acc + 16, kAccBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  Meanwhile<store_rows, kStep> meanwhile(t);
  const char* a = static_cast<const char*>(t->a);
  const char* b = static_cast<const char*>(t->b);
  for (int64_t k = t->k; k > 0; k -= kStep, a += t->a_step_bytes, b += kStep / 2 * kBBytes) {
    _tile_stream_loadd(4, a, t->a_row_bytes);
    _tile_loadd(6, b, kBBytes);
    _tile_loadd(7, b + 64, kBBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    meanwhile.step();
  }
  _tile_stored(0, acc, kAccBytes);
  _tile_stored(1, acc + 16, kAccBytes);
}

void tile_amx(const GemmTile* t) { t->rows > 16 ? tile_32(t) : tile_16(t); }

}  // namespace

const GemmKernel kGemmBf16Amx = {
    .bf16 = true,
    .mr = kTileMr,
    .nr = kTileNr,
    .a_group = kStep,
    .b_group = 2,
    .rows_in_place = true,
    .kc = 4096,
    .columns = kTileNr,
    .outruns_stores = true,
    .begin = configure_tiles,
    .end = end,
    .tile = tile_amx,
    .store = store,
    .pack = gemm_pack_avx512bf16,
    .column_sums = nullptr,
    .fence = end_stores,
};

}  // namespace lathe::cpu
