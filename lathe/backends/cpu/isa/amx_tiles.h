#pragma once
#include <immintrin.h>
#include <stdint.h>

// The configuration of the AMX levels: eight tiles of 16 rows of 64 bytes.  Each file that includes this gets
// its own copy.

namespace lathe::cpu {
namespace {

struct alignas(64) TileConfig {  // Intel SDM vol. 1, 18.2
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// For this thread, until _tile_release.
inline void configure_tiles() {
  static constexpr TileConfig kConfig = {
      1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&kConfig);
}

}  // namespace
}  // namespace lathe::cpu
