// What AVX2 and AVX-VNNI share in products of integers.  A source of isa/ defines LATHE_ISA_NAMESPACE and
// includes this.  A word is 4 bytes of values that follow each other along k.
#pragma once
#include <immintrin.h>

#include "lathe/backends/cpu/isa/products/gemm_int8_plain.h"
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

constexpr int kMr = 6, kNr = 16;  // 12 of 16 registers hold sums

template <typename T>
void int8_store_rows(const GemmStore* s) {
  for (int64_t j = 0; j < s->cols; j += kLanes) {
    const Floats scale = load(s->column_scale + j);
    const Floats bias = s->bias == nullptr ? Floats{} : load(s->bias + j);
    Ints offset;
    memcpy(&offset, s->column_offset + j, sizeof offset);
    for (int64_t i = 0; i < s->rows; ++i) {
      const Ints sum = bits_as<Ints>(load(s->acc + i * s->acc_ld + j)) - offset;
      const Floats factor = all(s->row_scale[i]) * scale;
      store(static_cast<T*>(s->c) + i * s->ldc + j, __builtin_convertvector(sum, Floats) * factor + bias);
    }
  }
}

void int8_store(const GemmStore* s) {
  if (s->cols % kLanes != 0) return int8_store_plain(s);
  s->c_type == GemmType::kF32    ? int8_store_rows<float>(s)
  : s->c_type == GemmType::kBf16 ? int8_store_rows<Bf16>(s)
                                 : int8_store_rows<F16>(s);
}

// A tile of kRows x 16 sums.  Dot: adds the products of the words of two registers.
template <typename Dot, int kRows>
void int8_tile_of(const GemmTile* t) {
  __m256i sum[kRows][2];
  __m256i* acc = reinterpret_cast<__m256i*>(t->acc);
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t->accumulate ? _mm256_load_si256(acc + 2 * i + j) : _mm256_setzero_si256();
  // Two places from which every row is a small multiple of the distance away that an address can hold.
  const int64_t row = t->a_row_bytes;
  const char* const a[2] = {static_cast<const char*>(t->a), static_cast<const char*>(t->a) + 3 * row};
  const __m256i* b = static_cast<const __m256i*>(t->b);
  for (int64_t k = 0, words = t->k / Dot::kWord; k < words; ++k, b += 2) {
    const __m256i b0 = _mm256_load_si256(b), b1 = _mm256_load_si256(b + 1);
    LATHE_UNROLL
    for (int i = 0; i < kRows; ++i) {
      int32_t word;
      memcpy(&word, a[i / 3] + i % 3 * row + 4 * k, sizeof word);
      const __m256i ai = _mm256_set1_epi32(word);
      sum[i][0] = Dot::add(sum[i][0], ai, b0);
      sum[i][1] = Dot::add(sum[i][1], ai, b1);
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < 2; ++j) _mm256_store_si256(acc + 2 * i + j, sum[i][j]);
}

template <typename Dot>
void int8_tile(const GemmTile* t) {
  if (t->finish != nullptr) int8_store(t->finish);
  static constexpr void (*kTiles[])(const GemmTile*) = {int8_tile_of<Dot, 1>, int8_tile_of<Dot, 2>,
                                                        int8_tile_of<Dot, 3>, int8_tile_of<Dot, 4>,
                                                        int8_tile_of<Dot, 5>, int8_tile_of<Dot, 6>};
  kTiles[t->rows - 1](t);
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
