#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/peak_kernels.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kTileBytes = 1024;

// Four sums of 16 x 16, as the matrix products have them: four tiles of operands feed four products.
template <bool kFromMemory>
double peak(int64_t rounds, const char* memory, int64_t bytes) {
  configure_tiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  int64_t at = 0;
  for (int64_t r = 0; r < rounds; ++r) {
    if (kFromMemory) {
      _tile_loadd(4, memory + at, 64);
      _tile_loadd(5, memory + at + kTileBytes, 64);
      _tile_loadd(6, memory + at + 2 * kTileBytes, 64);
      _tile_loadd(7, memory + at + 3 * kTileBytes, 64);
      at = at + 8 * kTileBytes <= bytes ? at + 4 * kTileBytes : 0;
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 16 * 16 * 32 * 4 * static_cast<double>(rounds);
}

double peak_bf16(int64_t rounds) { return peak<false>(rounds, nullptr, 0); }

}  // namespace

const PeakKernel kPeakAmx = {nullptr, peak_bf16, peak<true>};

}  // namespace lathe::cpu
