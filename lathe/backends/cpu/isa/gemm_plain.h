#pragma once
#include <stdint.h>
#include <string.h>

#include "lathe/backends/cpu/gemm_kernel.h"

// Packing, storing and column sums as plain loops.  Every kernel file that includes this gets its own copy,
// compiled for its own instruction set: hence `static`, never `inline` alone.

// Before a loop over registers: they stay registers only if it is unrolled early.
#if defined(__clang__)
#define LATHE_UNROLL _Pragma("unroll")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace lathe::cpu {
namespace {

[[maybe_unused]] static float gemm_widen(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

// Nearest even; NaN stays a quiet NaN.
[[maybe_unused]] static uint16_t gemm_narrow(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1)) >> 16;
  const uint32_t quiet = (word >> 16) | 0x40;
  return static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// One line of `count` values, `step` floats apart in dst.
static void gemm_pack_line(const void* src, bool bf16, bool round, int64_t count, float* dst, int64_t step) {
  if (bf16) {
    const uint16_t* from = static_cast<const uint16_t*>(src);
    for (int64_t i = 0; i < count; ++i) dst[i * step] = gemm_widen(from[i]);
  } else if (round) {
    const float* from = static_cast<const float*>(src);
    for (int64_t i = 0; i < count; ++i) dst[i * step] = gemm_widen(gemm_narrow(from[i]));
  } else {
    const float* from = static_cast<const float*>(src);
    for (int64_t i = 0; i < count; ++i) dst[i * step] = from[i];
  }
}

// Pack for f32 elements in groups of 1.
[[maybe_unused]] static void gemm_pack_f32(const GemmPack* p) {
  float* dst = static_cast<float*>(p->dst);
  const char* src = static_cast<const char*>(p->src);
  const int64_t line_bytes = p->ld * (p->src_bf16 ? 2 : 4);
  if (p->width < p->panel || p->k < p->k_padded)
    memset(dst, 0, static_cast<size_t>(p->k_padded * p->panel) * sizeof(float));
  if (p->along_k)
    for (int64_t w = 0; w < p->width; ++w)
      gemm_pack_line(src + w * line_bytes, p->src_bf16, p->round, p->k, dst + w, p->panel);
  else
    for (int64_t k = 0; k < p->k; ++k)
      gemm_pack_line(src + k * line_bytes, p->src_bf16, p->round, p->width, dst + k * p->panel, 1);
}

[[maybe_unused]] static void gemm_store_plain(const GemmStore* s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    const float* acc = s->acc + i * s->acc_ld;
    float* c = static_cast<float*>(s->c) + i * s->ldc;
    uint16_t* c16 = static_cast<uint16_t*>(s->c) + i * s->ldc;
    for (int64_t j = 0; j < s->cols; ++j) {
      float value = acc[j];
      if (s->bias != nullptr) value += s->bias[j];
      if (s->beta != 0) value += s->beta * (s->c_bf16 ? gemm_widen(c16[j]) : c[j]);
      if (s->c_bf16)
        c16[j] = gemm_narrow(value);
      else
        c[j] = value;
    }
  }
}

[[maybe_unused]] static void gemm_column_sums(const ColumnSums* s) {
  constexpr int64_t kColumns = 64, kRows = 64;
  const float* x = static_cast<const float*>(s->x);
  const uint16_t* x16 = static_cast<const uint16_t*>(s->x);
  for (int64_t first = 0; first < s->n; first += kColumns) {
    const int64_t cols = s->n - first < kColumns ? s->n - first : kColumns;
    float total[kColumns] = {};
    for (int64_t block = 0; block < s->m; block += kRows) {
      const int64_t end = block + kRows < s->m ? block + kRows : s->m;
      float part[kColumns] = {};
      for (int64_t i = block; i < end; ++i) {
        if (s->bf16)
          for (int64_t j = 0; j < cols; ++j) part[j] += gemm_widen(x16[i * s->ldx + first + j]);
        else
          for (int64_t j = 0; j < cols; ++j) part[j] += x[i * s->ldx + first + j];
      }
      for (int64_t j = 0; j < kColumns; ++j) total[j] += part[j];
    }
    for (int64_t j = 0; j < cols; ++j)
      s->out[first + j] = total[j] + (s->beta != 0 ? s->beta * s->out[first + j] : 0);
  }
}

}  // namespace
}  // namespace lathe::cpu
