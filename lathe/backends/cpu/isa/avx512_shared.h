// What products and attention of the AVX-512 levels share.  Each file that includes this gets its own copy,
// compiled with its own flags.
#pragma once
#include <immintrin.h>

namespace lathe::cpu {
namespace {

/// Rows r[i] of words become columns.
inline void transpose16(__m512i* r) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 4) {  // words of four rows: t[i + c] is column c of each 128 bits
    const __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]), b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]);
    const __m512i d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  for (int c = 0; c < 4; ++c) {  // 128 bits of sixteen rows
    const __m512i a = _mm512_shuffle_i32x4(t[c], t[c + 4], 0x88);
    const __m512i b = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0x88);
    const __m512i d = _mm512_shuffle_i32x4(t[c], t[c + 4], 0xdd);
    const __m512i e = _mm512_shuffle_i32x4(t[c + 8], t[c + 12], 0xdd);
    r[c] = _mm512_shuffle_i32x4(a, b, 0x88);
    r[c + 8] = _mm512_shuffle_i32x4(a, b, 0xdd);
    r[c + 4] = _mm512_shuffle_i32x4(d, e, 0x88);
    r[c + 12] = _mm512_shuffle_i32x4(d, e, 0xdd);
  }
}

/// After it other threads see what was written past the caches.
[[maybe_unused]] void end_stores() { _mm_sfence(); }

}  // namespace
}  // namespace lathe::cpu
