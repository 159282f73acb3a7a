#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/peak/peak_kernels.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTileBytes = 1024, kTiles = 4;

// Four sums of 16 x 16, as the matrix products have them: four tiles of operands feed four products.
template <bool kFromMemory>
double peak(int64_t rounds, const char* operands, int64_t bytes) {
  configure_tiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  int64_t at = 0;
  for (int64_t r = 0; r < rounds; ++r) {
    if (kFromMemory || r == 0) {
      _tile_loadd(4, operands + at, 64);
      _tile_loadd(5, operands + at + kTileBytes, 64);
      _tile_loadd(6, operands + at + 2 * kTileBytes, 64);
      _tile_loadd(7, operands + at + 3 * kTileBytes, 64);
      at = at + 2 * kTiles * kTileBytes <= bytes ? at + kTiles * kTileBytes : 0;
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 16 * 16 * 32 * kTiles * static_cast<double>(rounds);
}

}  // namespace

const PeakKernel kPeakAmx = {nullptr, nullptr, peak<false>, peak<true>};

}  // namespace lathe::cpu
