#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/backends/cpu/isa/unroll.h"

// Packing, storing and column sums as plain loops.  Every kernel file that includes this gets its own copy,
// compiled for its own instruction set: so functions are `static`, never only `inline`.

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

#if !defined(__F16C__) && !defined(__aarch64__)
static float gemm_widen_half(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, magnitude = (half & 0x7fffu) << 13;
  float scaled;
  memcpy(&scaled, &magnitude, sizeof scaled);
  scaled *= 0x1p112f;
  uint32_t word;
  memcpy(&word, &scaled, sizeof word);
  word = sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : word);  // infinity, NaN
  memcpy(&scaled, &word, sizeof scaled);
  return scaled;
}

static uint16_t gemm_narrow_half(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  const uint32_t magnitude = word & 0x7fffffffu, sign = (word >> 16) & 0x8000u;
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
  if (magnitude >= 0x38800000u)
    return static_cast<uint16_t>(sign | (magnitude + 0xfffu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13);
  // below 2^-14: numbers from 1/2 on are 2^-24 apart, as subnormals are
  float small;
  memcpy(&small, &magnitude, sizeof small);
  small += 0.5f;
  memcpy(&word, &small, sizeof word);
  return static_cast<uint16_t>(sign | (word - 0x3f000000u));
}
#endif

// IEEE binary16 to float and back: nearest even, subnormals kept, from 65520 on infinity.
[[maybe_unused]] static void gemm_widen_f16(const uint16_t* from, int64_t count, float* to) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i]);
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4) vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
  for (; i < count; ++i) to[i] = vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(from[i]))), 0);
#else
  for (; i < count; ++i) to[i] = gemm_widen_half(from[i]);
#endif
}

[[maybe_unused]] static void gemm_narrow_f16(const float* from, int64_t count, uint16_t* to) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < count; ++i) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
#elif defined(__aarch64__)
  for (; i + 4 <= count; i += 4) vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
  for (; i < count; ++i) to[i] = vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(from[i]))), 0);
#else
  for (; i < count; ++i) to[i] = gemm_narrow_half(from[i]);
#endif
}

// Values of any type, as f32.  At most kGemmPiece of them.
constexpr int64_t kGemmPiece = 64;
static void gemm_widen_piece(const void* src, GemmType type, int64_t count, float* to) {
  const uint16_t* halves = static_cast<const uint16_t*>(src);
  if (type == GemmType::kBf16)
    for (int64_t i = 0; i < count; ++i) to[i] = gemm_widen(halves[i]);
  else if (type == GemmType::kF16)
    gemm_widen_f16(halves, count, to);
  else
    memcpy(to, src, static_cast<size_t>(count) * sizeof(float));
}
static void gemm_round_piece(GemmType type, int64_t count, float* values) {
  if (type == GemmType::kBf16)
    for (int64_t i = 0; i < count; ++i) values[i] = gemm_widen(gemm_narrow(values[i]));
  if (type == GemmType::kF16) {
    uint16_t halves[kGemmPiece];
    gemm_narrow_f16(values, count, halves);
    gemm_widen_f16(halves, count, values);
  }
}
static int64_t gemm_piece(int64_t done, int64_t count) {
  return count - done < kGemmPiece ? count - done : kGemmPiece;
}
static int64_t gemm_bytes(GemmType type) { return type == GemmType::kF32 ? 4 : 2; }

// One line of `count` values, `step` floats apart in dst.
static void gemm_pack_line(const char* src, const GemmPack* p, int64_t count, float* dst, int64_t step) {
  for (int64_t done = 0; done < count; done += kGemmPiece) {
    const int64_t n = gemm_piece(done, count);
    float values[kGemmPiece];
    gemm_widen_piece(src + done * gemm_bytes(p->src_type), p->src_type, n, values);
    if (p->src_type == GemmType::kF32) gemm_round_piece(p->round, n, values);
    for (int64_t i = 0; i < n; ++i) dst[(done + i) * step] = values[i];
  }
}

// Pack for f32 elements in groups of 1.
[[maybe_unused]] static void gemm_pack_f32(const GemmPack* p) {
  float* dst = static_cast<float*>(p->dst);
  const char* src = static_cast<const char*>(p->src);
  const int64_t line_bytes = p->ld * gemm_bytes(p->src_type);
  if (p->width < p->panel || p->k < p->k_padded)
    memset(dst, 0, static_cast<size_t>(p->k_padded * p->panel) * sizeof(float));
  if (p->along_k)
    for (int64_t w = 0; w < p->width; ++w) gemm_pack_line(src + w * line_bytes, p, p->k, dst + w, p->panel);
  else
    for (int64_t k = 0; k < p->k; ++k)
      gemm_pack_line(src + k * line_bytes, p, p->width, dst + k * p->panel, 1);
}

[[maybe_unused]] static void gemm_store_plain(const GemmStore* s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    const int64_t row = i * s->ldc * gemm_bytes(s->c_type);
    for (int64_t done = 0; done < s->cols; done += kGemmPiece) {
      const int64_t n = gemm_piece(done, s->cols);
      const float *acc = s->acc + i * s->acc_ld + done, *bias = s->bias;
      const int64_t offset = row + done * gemm_bytes(s->c_type);
      char* to = static_cast<char*>(s->c) + offset;
      float values[kGemmPiece], more[kGemmPiece];
      for (int64_t j = 0; j < n; ++j) values[j] = bias == nullptr ? acc[j] : acc[j] + bias[done + j];
      if (s->addend != nullptr) {
        gemm_widen_piece(static_cast<const char*>(s->addend) + offset, s->c_type, n, more);
        for (int64_t j = 0; j < n; ++j) values[j] += more[j];
      }
      if (s->c_type == GemmType::kBf16)
        for (int64_t j = 0; j < n; ++j) reinterpret_cast<uint16_t*>(to)[j] = gemm_narrow(values[j]);
      else if (s->c_type == GemmType::kF16)
        gemm_narrow_f16(values, n, reinterpret_cast<uint16_t*>(to));
      else
        memcpy(to, values, static_cast<size_t>(n) * sizeof(float));
    }
  }
}

// The next line of what is packed next, into the second cache.
[[maybe_unused]] static inline void gemm_fetch_line(GemmFetch& source) {
  __builtin_prefetch(source.at, 0, 2);
  --source.lines, source.at += 64, source.left -= 64;
  if (source.left > 0) return;
  source.at += source.pitch - source.row_bytes;
  source.left = source.row_bytes;
}

[[maybe_unused]] static void gemm_column_sums(const ColumnSums* s) {
  constexpr int64_t kColumns = kGemmPiece;
  const char* x = static_cast<const char*>(s->x);
  for (int64_t first = 0; first < s->n; first += kColumns) {
    const int64_t cols = gemm_piece(first, s->n);
    float sum[kColumns] = {}, row[kColumns];
    for (int64_t i = 0; i < s->m; ++i) {
      gemm_widen_piece(x + (i * s->ldx + first) * gemm_bytes(s->type), s->type, cols, row);
      for (int64_t j = 0; j < cols; ++j) sum[j] += row[j];
    }
    for (int64_t j = 0; j < cols; ++j)
      s->out[first + j] = (s->accumulate ? s->out[first + j] : 0.0f) + sum[j];
  }
}

}  // namespace
}  // namespace lathe::cpu
