#define LATHE_ISA_NAMESPACE isa_avx512bf16
#include "lathe/backends/cpu/isa/attention/attention_bf16_backward.h"

namespace lathe::cpu {
namespace isa_avx512bf16 {
namespace {

/// Eight rows of a, kCols blocks of columns.
template <int kCols>
inline void tile(const Product& p, const Block* a, int first, const Block* b, float* c) {
  __m512 sum[8][kCols];
  LATHE_UNROLL
  for (int r = 0; r < 8; ++r)
    for (int n = 0; n < kCols; ++n)
      sum[r][n] = p.add ? _mm512_load_ps(c + r * p.c_row + 16 * n) : _mm512_setzero_ps();
  for (int64_t k = 0; k < p.depth; ++k, ++a, b += p.b_row)
    for (int w = 0; w < 16; ++w) {
      __m512i column[kCols];
      LATHE_UNROLL
      for (int n = 0; n < kCols; ++n) column[n] = _mm512_load_si512(b[n].word[w]);
      LATHE_UNROLL
      for (int r = 0; r < 8; ++r) {
        const __m512i x = _mm512_set1_epi32(static_cast<int>(a->word[first + r][w]));
        for (int n = 0; n < kCols; ++n)
          sum[r][n] = _mm512_dpbf16_ps(sum[r][n], bf16_of(x), bf16_of(column[n]));
      }
    }
  LATHE_UNROLL
  for (int r = 0; r < 8; ++r)
    for (int n = 0; n < kCols; ++n) _mm512_store_ps(c + r * p.c_row + 16 * n, sum[r][n]);
}

void multiply(const Product& p) {
  for (int64_t j = 0; j < p.cols; j += 2)
    for (int64_t i = 0; i < p.rows; ++i)
      for (int first = 0; first < 16; first += 8) {
        const Block *a = p.a + i * p.a_row, *b = p.b + j;
        float* c = p.c + (16 * i + first) * p.c_row + 16 * j;
        j + 1 < p.cols ? tile<2>(p, a, first, b, c) : tile<1>(p, a, first, b, c);
      }
}

}  // namespace
}  // namespace isa_avx512bf16

constinit const AttentionKernels kAttentionBf16Avx512Bf16 = {
    isa_avx512bf16::forward<isa_avx512bf16::multiply>,
    isa_avx512bf16::backward<isa_avx512bf16::multiply>,
    isa_avx512bf16::forward_workspace,
    isa_avx512bf16::backward_workspace,
    nullptr,
    end_stores};

}  // namespace lathe::cpu
