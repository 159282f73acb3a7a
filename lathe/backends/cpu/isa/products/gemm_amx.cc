#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/fastest_way.h"
#include "lathe/backends/cpu/isa/products/gemm_avx512.h"
#include "lathe/backends/cpu/isa/products/gemm_meanwhile.h"

// Tiles 0-3 hold 32 x 32 sums, 4 and 5 rows of a, 6 and 7 columns of b: four loads feed four products.
//
// The products take 64 cycles a step, the loads that feed them 80 from the second cache. A step loads for the
// next one, each tile right after the products that read it last.  That helps most where a core is shared.
// The rest of a step is for the vector unit: it stores an earlier tile and fetches the next panel of b.  A
// tile of b is 16 lines in a row.  A tile of a is not, because its rows are read in place.  k is hardly ever
// cut: sixteen threads wait longer for sums to be stored and loaded again than for long panels of b, and one
// or two are as fast either way (docs/performance.md).
//
// Rows of a and lines of b can be fetched into the first cache a step before they are loaded.  That is mostly
// faster where a core is shared and slower where it is whole; that changes several times a second, so each
// thread finds out which way is the fastest.  The sums are the same.

namespace lathe::cpu {
namespace {

constexpr int kTileMr = 32, kTileNr = 32, kStep = 32;  // elements of k in a product
constexpr int kAccBytes = kTileNr * 4, kBBytes = 64, kBTile = 16 * kBBytes;

void end() {
  _tile_release();
  end_stores();
}

// Fetches eight rows of a tile into the first-level cache.  Always inline: the compiler thinks that a call of
// a function that only fetches has no effect, and drops it.
[[gnu::always_inline]] inline void fetch_rows(const char* first, int64_t pitch) {
#pragma GCC unroll 8
  for (int row = 0; row < 8; ++row) _mm_prefetch(first + row * pitch, _MM_HINT_T0);
}

// kBelow: more than 16 rows.  kFetch*: ahead, of a and b.
template <bool kBelow, bool kFetchA, bool kFetchB>
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
    if (kBelow) {
      _tile_loadd(2, below, kAccBytes);
      _tile_loadd(3, below + 16, kAccBytes);
    }
  }
  fetch_addend(t);
  Meanwhile<store_rows_of, kStep> meanwhile(t);
  const int64_t a_row = t->a_row_bytes;
  const char* a = static_cast<const char*>(t->a);
  const char* a_below = a + 16 * a_row;
  const char* b = static_cast<const char*>(t->b);
  _tile_loadd(6, b, kBBytes);
  _tile_stream_loadd(4, a, a_row);
  _tile_loadd(7, b + kBTile, kBBytes);
  if (kBelow) _tile_stream_loadd(5, a_below, a_row);
  const auto fetch = [&](int quarter) __attribute__((always_inline)) {
    if (kFetchA) fetch_rows(a + t->a_step_bytes + quarter * 8 * a_row, a_row);
    if (kFetchB) fetch_rows(b + 2 * kBTile + quarter * 8 * kBBytes, kBBytes);
  };
  for (int64_t k = t->k - kStep; k > 0; k -= kStep) {
    a += t->a_step_bytes;
    a_below += t->a_step_bytes;
    b += 2 * kBTile;
    _tile_dpbf16ps(0, 4, 6);
    fetch(0);
    if (!kBelow) _tile_loadd(6, b, kBBytes);
    _tile_dpbf16ps(1, 4, 7);
    fetch(1);
    _tile_stream_loadd(4, a, a_row);
    meanwhile.step();
    if (kBelow) {
      _tile_dpbf16ps(2, 5, 6);
      fetch(2);
      _tile_loadd(6, b, kBBytes);
      _tile_dpbf16ps(3, 5, 7);
      fetch(3);
      _tile_stream_loadd(5, a_below, a_row);
    }
    _tile_loadd(7, b + kBTile, kBBytes);
  }
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  meanwhile.step();
  if (kBelow) {
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, acc, kAccBytes);
  _tile_stored(1, acc + 16, kAccBytes);
  if (!kBelow) return;
  _tile_stored(2, below, kAccBytes);
  _tile_stored(3, below + 16, kAccBytes);
}

constexpr int kWays = 4;
constexpr void (*kTiles[kWays])(const GemmTile*) = {tile_of<true, false, false>, tile_of<true, true, false>,
                                                    tile_of<true, false, true>, tile_of<true, true, true>};

void tile_amx(const GemmTile* t) {
  if (t->rows <= 16) return tile_of<false, false, false>(t);
  thread_local FastestWay<kWays> fastest;
  fastest.turn([] { return __rdtsc(); }, [t](int way) { kTiles[way](t); });
}

}  // namespace

const GemmKernel kGemmBf16Amx = {
    .bf16 = true,
    .mr = kTileMr,
    .nr = kTileNr,
    .a_group = kStep,
    .b_group = 2,
    .b_columns = kTileNr / 2,
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
