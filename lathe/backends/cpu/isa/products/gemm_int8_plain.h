#pragma once
#include "lathe/backends/cpu/isa/products/gemm_plain.h"

// Rounding to integers and storing their sums as plain loops.  Every kernel file that includes this gets its
// own copy, compiled for its own instruction set.

namespace lathe::cpu {
namespace {

struct Int8Scale {
  float scale, inverse;
};

template <bool kBf16>
static uint32_t int8_source_bits(const void* src, int64_t i) {
  if (kBf16) return static_cast<uint32_t>(static_cast<const uint16_t*>(src)[i]) << 16;
  return static_cast<const uint32_t*>(src)[i];
}

// As bits, magnitudes compare like integers, and a number that is not finite is larger than all finite ones.
template <bool kBf16>
static uint32_t int8_largest(const void* src, int64_t k) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < k; ++i) {
    const uint32_t bits = int8_source_bits<kBf16>(src, i) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

static Int8Scale int8_scale(uint32_t largest) {
  if (largest >= 0x7f800000u) return {__builtin_nanf(""), 0};
  float magnitude;
  memcpy(&magnitude, &largest, sizeof magnitude);
  if (magnitude < 0x1p-100f) return {0, 0};
  return {magnitude / 127, 127 / magnitude};
}

// x · inverse, rounded once to the nearest integer, halves to even: added to a number whose unit in the last
// place is 1, of which the low bits remain.  In double the product is exact.
[[maybe_unused]] static uint32_t int8_round(float x, float inverse) {
#if defined(__FMA__) || defined(__aarch64__)
  const float sum = __builtin_fmaf(x, inverse, 0x1.8p23f);
  uint32_t bits;
  memcpy(&bits, &sum, sizeof bits);
  return bits - 0x4b400000u;
#else
  const double sum = static_cast<double>(x) * static_cast<double>(inverse) + 0x1.8p52;
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  return static_cast<uint32_t>(bits);
#endif
}

template <bool kBf16, typename Out, int kShift>
static void int8_values(const void* src, int64_t k, float inverse, Out* dst) {
  for (int64_t i = 0; i < k; ++i) {
    const uint32_t bits = int8_source_bits<kBf16>(src, i);
    float x;
    memcpy(&x, &bits, sizeof x);
    dst[i] = static_cast<Out>(int8_round(x, inverse) + static_cast<uint32_t>(kShift));
  }
}

template <bool kBf16, typename Out, int kShift>
static float int8_row(const void* src, int64_t k, Out* dst) {
  const Int8Scale s = int8_scale(int8_largest<kBf16>(src, k));
  int8_values<kBf16, Out, kShift>(src, k, s.inverse, dst);
  return s.scale;
}

// f(values, begin, count) for a row of f16 in pieces of f32.
template <typename F>
static void int8_pieces(const uint16_t* src, int64_t k, F f) {
  float values[kGemmPiece];
  for (int64_t i = 0; i < k; i += kGemmPiece) {
    const int64_t count = gemm_piece(i, k);
    gemm_widen_f16(src + i, count, values);
    f(values, i, count);
  }
}
template <typename Out, int kShift>
static float int8_row_f16(const uint16_t* src, int64_t k, Out* dst) {
  uint32_t largest = 0;
  int8_pieces(src, k, [&](const float* values, int64_t, int64_t count) {
    const uint32_t here = int8_largest<false>(values, count);
    largest = here > largest ? here : largest;
  });
  const Int8Scale s = int8_scale(largest);
  int8_pieces(src, k, [&](const float* values, int64_t i, int64_t count) {
    int8_values<false, Out, kShift>(values, count, s.inverse, dst + i);
  });
  return s.scale;
}

template <typename Out, int kShift>
static void quantize_a(const GemmQuantize* q) {
  for (int64_t row = 0; row < q->rows; ++row) {
    const char* src = static_cast<const char*>(q->src) + row * q->ld * gemm_bytes(q->src_type);
    Out* dst = reinterpret_cast<Out*>(static_cast<char*>(q->dst) + row * q->dst_row_bytes);
    if (q->src_type == GemmType::kBf16)
      q->scales[row] = int8_row<true, Out, kShift>(src, q->k, dst);
    else if (q->src_type == GemmType::kF32)
      q->scales[row] = int8_row<false, Out, kShift>(src, q->k, dst);
    else
      q->scales[row] = int8_row_f16<Out, kShift>(reinterpret_cast<const uint16_t*>(src), q->k, dst);
  }
}

template <typename Out, int kShift>
static void quantize_b(const GemmQuantize* q) {
  constexpr int64_t kPiece = 256;  // a multiple of every group
  Out* dst = static_cast<Out*>(q->dst);
  memset(dst, 0, static_cast<size_t>(q->k_padded * q->panel) * sizeof(Out));
  for (int64_t line = 0; line < q->panel; ++line) {
    q->scales[line] = 0;
    q->offsets[line] = 0;
    if (line >= q->rows) continue;
    const float* src = static_cast<const float*>(q->src) + line * q->ld;
    const Int8Scale s = int8_scale(int8_largest<false>(src, q->k));
    int32_t sum = 0;
    for (int64_t k = 0; k < q->k; k += kPiece) {
      Out piece[kPiece] = {};
      const int64_t count = q->k - k < kPiece ? q->k - k : kPiece;
      int8_values<false, Out, 0>(src + k, count, s.inverse, piece);
      for (int64_t i = 0; i < count; ++i) sum += piece[i];
      for (int64_t i = 0; i < count; i += q->group)
        memcpy(dst + (k + i) * q->panel + line * q->group, piece + i,
               static_cast<size_t>(q->group) * sizeof(Out));
    }
    q->scales[line] = s.scale;
    q->offsets[line] = kShift * sum;
  }
}

[[maybe_unused]] static void int8_store_plain(const GemmStore* s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    char* c = static_cast<char*>(s->c) + i * s->ldc * gemm_bytes(s->c_type);
    float values[kGemmPiece];  // no tile is wider
    for (int64_t j = 0; j < s->cols; ++j) {
      const int32_t sum = reinterpret_cast<const int32_t*>(s->acc)[i * s->acc_ld + j] - s->column_offset[j];
      values[j] = static_cast<float>(sum) * (s->row_scale[i] * s->column_scale[j]);
      if (s->bias != nullptr) values[j] += s->bias[j];
    }
    if (s->c_type == GemmType::kBf16)
      for (int64_t j = 0; j < s->cols; ++j) reinterpret_cast<uint16_t*>(c)[j] = gemm_narrow(values[j]);
    else if (s->c_type == GemmType::kF16)
      gemm_narrow_f16(values, s->cols, reinterpret_cast<uint16_t*>(c));
    else
      memcpy(c, values, static_cast<size_t>(s->cols) * sizeof(float));
  }
}

}  // namespace
}  // namespace lathe::cpu
