#define LATHE_ISA_NAMESPACE isa_amx
#include "lathe/backends/cpu/isa/amx_tiles.h"
#include "lathe/backends/cpu/isa/attention/attention_bf16_backward.h"

// Tiles 0-3 hold 32 x 32 sums, 4 and 5 rows of a, 6 and 7 columns of b.

namespace lathe::cpu {
namespace isa_amx {
namespace {

void end() {
  _tile_release();
  end_stores();
}

template <bool kTwoRows, bool kTwoCols>
inline void tiles(const Product& p, const Block* a, const Block* b, float* c) {
  const int64_t row_bytes = p.c_row * static_cast<int64_t>(sizeof(float));
  float* below = c + 16 * p.c_row;
  if (p.add) {
    _tile_loadd(0, c, row_bytes);
    if (kTwoCols) _tile_loadd(1, c + 16, row_bytes);
    if (kTwoRows) _tile_loadd(2, below, row_bytes);
    if (kTwoRows && kTwoCols) _tile_loadd(3, below + 16, row_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < p.depth; ++k, ++a, b += p.b_row) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (kTwoCols) {
      _tile_loadd(7, b + 1, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kTwoRows) {
      _tile_loadd(5, a + p.a_row, 64);
      _tile_dpbf16ps(2, 5, 6);
      if (kTwoCols) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, row_bytes);
  if (kTwoCols) _tile_stored(1, c + 16, row_bytes);
  if (kTwoRows) _tile_stored(2, below, row_bytes);
  if (kTwoRows && kTwoCols) _tile_stored(3, below + 16, row_bytes);
}

void multiply(const Product& p) {
  for (int64_t i = 0; i < p.rows; i += 2)
    for (int64_t j = 0; j < p.cols; j += 2) {
      const bool two_rows = i + 1 < p.rows, two_cols = j + 1 < p.cols;
      const Block *a = p.a + i * p.a_row, *b = p.b + j;
      float* c = p.c + 16 * (i * p.c_row + j);
      if (two_rows && two_cols)
        tiles<true, true>(p, a, b, c);
      else if (two_rows)
        tiles<true, false>(p, a, b, c);
      else if (two_cols)
        tiles<false, true>(p, a, b, c);
      else
        tiles<false, false>(p, a, b, c);
    }
}

}  // namespace
}  // namespace isa_amx

constinit const AttentionKernels kAttentionBf16Amx = {isa_amx::forward<isa_amx::multiply>,
                                                      isa_amx::backward<isa_amx::multiply>,
                                                      isa_amx::forward_workspace,
                                                      isa_amx::backward_workspace,
                                                      configure_tiles,
                                                      isa_amx::end};

}  // namespace lathe::cpu
