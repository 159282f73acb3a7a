#pragma once
// Plain declarations only: this header is compiled once per instruction set.
#include <stdint.h>

#include "lathe/backends/cpu/isa/rows/rows_kernels.h"

namespace lathe::cpu {

/// One head of one sequence: pointers to its first token.  Backward: one head of k and v with the `group`
/// heads of q that it serves; pointers are those of the first one, `width` columns before the next.
struct AttentionTask {
  int64_t length, width;
  int64_t group;                      ///< forward: 1
  int64_t lse_stride;                 ///< backward: elements between the lse of heads
  int64_t first, count;               ///< forward: the queries to compute, at most 512
  int64_t qkv_stride, out_stride;     ///< elements between tokens
  int64_t q_next, kv_next, out_next;  ///< elements to where the thread probably goes on
  int64_t before, after;              ///< a query sees the keys at most this many tokens before and after it
  float scale;
  uint32_t head, sample;
  DropoutRule dropout;
  const void *q, *k, *v;
  void* y;                 ///< forward: the output
  float* new_lse;          ///< forward: [length], written
  const void *out, *dout;  ///< backward
  const float* lse;        ///< backward
  void *dq, *dk, *dv;
  bool results_are_cold;  ///< y, or dq, dk and dv: they may be written past the caches
  float* workspace;
};

/// Kernels of one instruction set and one dtype of the tensors, for one thread.
struct AttentionKernels {
  void (*forward)(const AttentionTask*);
  void (*backward)(const AttentionTask*);
  /// Floats of workspace for a sequence of that length, a multiple of 16.
  int64_t (*forward_workspace)(int64_t length, int64_t width);
  int64_t (*backward_workspace)(int64_t length, int64_t width, int64_t group);
  /// Called around a thread's tasks; null if there is nothing to set up.
  void (*begin)();
  void (*end)();
};

// f32 arithmetic, whatever the tensors
extern const AttentionKernels kAttentionF32Portable, kAttentionBf16Portable, kAttentionF16Portable;
#if defined(__x86_64__)
extern const AttentionKernels kAttentionF32Avx2, kAttentionBf16Avx2, kAttentionF16Avx2;
extern const AttentionKernels kAttentionF32Avx512, kAttentionBf16Avx512, kAttentionF16Avx512;
// products of bf16
extern const AttentionKernels kAttentionBf16Avx512Bf16, kAttentionBf16Amx;
#endif
#if defined(__aarch64__)
extern const AttentionKernels kAttentionF32Neon, kAttentionBf16Neon, kAttentionF16Neon;
#endif

}  // namespace lathe::cpu
