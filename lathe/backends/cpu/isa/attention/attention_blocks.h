// Operands of the bf16 products of attention: blocks of 16 rows of 16 words, a word being two bf16 that
// follow each other along the sum.  A left block is 16 rows by 32 terms, a right block 32 terms by 16
// columns; each is an AMX tile.  Rows and columns that do not exist are 0.  For AVX-512 with its bf16
// instructions.
#pragma once
#include <immintrin.h>
#include <stdint.h>

#include "lathe/backends/cpu/isa/avx512_shared.h"
#include "lathe/backends/cpu/isa/unroll.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

typedef uint16_t Bf16;

struct alignas(64) Block {
  uint32_t word[16][16];
};

inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }
inline uint32_t first_of_32(int64_t n) { return n >= 32 ? ~0u : n <= 0 ? 0 : (1u << n) - 1; }

/// c = a · b, or c += a · b, for rows × cols × depth blocks: block (i, k) of a is a[i · a_row + k], block
/// (k, j) of b is b[k · b_row + j], and c is f32, c_row floats from row to row.
struct Product {
  int64_t rows, cols, depth;
  const Block* a;
  int64_t a_row;
  const Block* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  bool add;
};

/// 32 columns of a bf16 matrix in memory.
struct Columns {
  const Bf16* data;
  int64_t stride, rows;
  __mmask32 there;

  __m512i row(int64_t r) const {
    return r < rows ? _mm512_maskz_loadu_epi16(there, data + r * stride) : _mm512_setzero_si512();
  }
};
/// A bf16 matrix in memory.
struct Rows {
  const Bf16* data;
  int64_t stride, rows, cols;

  Columns from(int64_t r, int64_t c) const {
    return {data + r * stride + c, stride, rows - r, first_of_32(cols - c)};
  }
};

inline __m512i bits_of(__m512bh x) { return reinterpret_cast<__m512i>(x); }
inline __m512bh bf16_of(__m512i x) { return reinterpret_cast<__m512bh>(x); }
/// 32 floats rounded to bf16, those of the lanes that are not in `kept` 0.
inline __m512i rounded(__m512 low, __m512 high) { return bits_of(_mm512_cvtne2ps_pbh(high, low)); }
inline __m512i rounded(uint32_t kept, __m512 low, __m512 high) {
  return bits_of(_mm512_maskz_cvtne2ps_pbh(kept, high, low));
}

/// Two rows of 16 elements, one after the other, as words.
inline __m512i paired(__m512i rows) {
  alignas(64) static const uint16_t kPlace[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                  21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                  11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kPlace), rows);
}

/// Two rows of 32 elements as words, 16 to a half.  Word i of half h holds column zipped(h, i).
struct Zipped {
  __m512i half[2];
};
inline Zipped zip(__m512i first, __m512i second) {
  return {{_mm512_unpacklo_epi16(first, second), _mm512_unpackhi_epi16(first, second)}};
}
constexpr int zipped(int half, int i) { return i / 4 * 8 + half * 4 + i % 4; }
/// 32 bf16 in the order of zipped(0, …), zipped(1, …) → in their own order.
inline __m512i unzipped(__m512i x) {
  return _mm512_permutexvar_epi64(_mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0), x);
}

/// x as left operand: to[row block · depth + k].
inline void pack_left(const Rows& x, Block* to) {
  for (int64_t r = 0; r < x.rows; r += 16)
    for (int64_t c = 0; c < x.cols; c += 32, ++to) {
      const Columns from = x.from(r, c);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to->word[i], from.row(i));
    }
}

/// to = the transpose of rows row(0) … row(15) of words.
template <typename F>
inline void store_turned_block(F row, Block* to) {
  __m512i word[16];
  LATHE_UNROLL
  for (int i = 0; i < 16; ++i) word[i] = row(i);
  transpose16(word);
  LATHE_UNROLL
  for (int i = 0; i < 16; ++i) _mm512_store_si512(to->word[i], word[i]);
}

/// The transpose of x as right operand of up to two column blocks: to[k · 2 + column block].
inline void pack_right_turned(const Rows& x, Block* to) {
  for (int64_t c = 0; c < x.cols; c += 32)
    for (int64_t r = 0; r < x.rows; r += 16) {
      const Columns from = x.from(r, c);
      store_turned_block([&](int i) { return from.row(i); }, to + c / 32 * 2 + r / 16);
    }
}

/// x as right operand, columns zipped in each 32: to[k · (2 · parts(cols, 32)) + column block].
inline void pack_right(const Rows& x, Block* to) {
  for (int64_t r = 0; r < x.rows; r += 32)
    for (int64_t c = 0; c < x.cols; c += 32, to += 2) {
      const Columns from = x.from(r, c);
      for (int i = 0; i < 16; ++i) {
        const Zipped z = zip(from.row(2 * i), from.row(2 * i + 1));
        for (int h = 0; h < 2; ++h) _mm512_store_si512(to[h].word[i], z.half[h]);
      }
    }
}

/// The transpose of x as left operand: to[row block · depth + k] where rows are the columns of x.
inline void pack_left_turned(const Rows& x, Block* to) {
  const int64_t depth = parts(x.rows, 32);
  for (int64_t c = 0; c < x.cols; c += 32)
    for (int64_t k = 0; k < depth; ++k) {
      const Columns from = x.from(32 * k, c);
      __m512i half[2][16];
      LATHE_UNROLL
      for (int i = 0; i < 16; ++i) {
        const Zipped z = zip(from.row(2 * i), from.row(2 * i + 1));
        half[0][i] = z.half[0];
        half[1][i] = z.half[1];
      }
      for (int h = 0; h < 2; ++h) {
        transpose16(half[h]);
        LATHE_UNROLL
        for (int i = 0; i < 16; ++i) {
          const int row = zipped(h, i);
          _mm512_store_si512(to[(c / 16 + row / 16) * depth + k].word[row % 16], half[h][i]);
        }
      }
    }
}

/// The first `count` of 32; without a mask where all are meant: a masked store takes Zen 4 many cycles.
/// cold: whole lines go past the caches.
inline void store_first(Bf16* to, int64_t count, __m512i halves, bool cold) {
  if (cold && count >= 32 && reinterpret_cast<uintptr_t>(to) % 64 == 0)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), halves);
  else if (count >= 32)
    _mm512_storeu_si512(to, halves);
  else
    _mm512_mask_storeu_epi16(to, first_of_32(count), halves);
}

/// y[rows, cols] = factor · x, columns zipped in each 32, rows `x_row` floats apart.
inline void store_rows(int64_t rows, int64_t cols, const float* x, int64_t x_row, float factor, Bf16* y,
                       int64_t stride, bool cold) {
  const __m512 f = _mm512_set1_ps(factor);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; c += 32) {
      const float* from = x + r * x_row + c;
      const __m512 low = _mm512_mul_ps(_mm512_load_ps(from), f);
      const __m512 high = _mm512_mul_ps(_mm512_load_ps(from + 16), f);
      store_first(y + r * stride + c, cols - c, unzipped(rounded(low, high)), cold);
    }
}

/// y[rows, cols] = the transpose of x[cols, 32] · factor, the columns of x zipped, a factor for each of them.
inline void store_turned(int64_t rows, int64_t cols, const float* x, const __m512* factor, Bf16* y,
                         int64_t stride, bool cold) {
  for (int64_t c = 0; c < cols; c += 32) {
    __m512i half[2][16];
    const auto line = [&](int64_t d) {
      return rounded(_mm512_mul_ps(_mm512_load_ps(x + d * 32), factor[0]),
                     _mm512_mul_ps(_mm512_load_ps(x + d * 32 + 16), factor[1]));
    };
    LATHE_UNROLL
    for (int i = 0; i < 16; ++i) {
      const Zipped z = zip(line(c + 2 * i), line(c + 2 * i + 1));
      half[0][i] = z.half[0];
      half[1][i] = z.half[1];
    }
    for (int h = 0; h < 2; ++h) {
      transpose16(half[h]);
      LATHE_UNROLL
      for (int i = 0; i < 16; ++i) {
        const int column = zipped(h, i), row = zipped(column / 16, column % 16);
        if (row < rows) store_first(y + row * stride + c, cols - c, half[h][i], cold);
      }
    }
  }
}
/// Factors of columns in their own order → as store_turned takes them.
inline void zip_factors(__m512* factor) {
  __m512i at[2];
  alignas(64) int32_t index[2][16];
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 16; ++i) index[h][i] = zipped(h, i);
  for (int h = 0; h < 2; ++h) at[h] = _mm512_load_si512(index[h]);
  const __m512 low = factor[0], high = factor[1];
  for (int h = 0; h < 2; ++h) factor[h] = _mm512_permutex2var_ps(low, at[h], high);
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
