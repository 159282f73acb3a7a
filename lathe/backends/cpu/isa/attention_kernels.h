#pragma once
// Plain declarations only: this header is compiled once per instruction set.
#include <stdint.h>

#include "lathe/backends/cpu/isa/rows_kernels.h"

namespace lathe::cpu {

/// One head of one sequence: pointers to its first token.
struct AttentionTask {
  int64_t length, width;
  int64_t qkv_stride, out_stride;  ///< elements between tokens
  float scale;
  uint32_t head, sample;
  DropoutRule dropout;
  const void *q, *k, *v;
  void* y;                 ///< forward: the output
  float* new_lse;          ///< forward: [length], written
  const void *out, *dout;  ///< backward
  const float* lse;        ///< backward
  void *dq, *dk, *dv;
  float* workspace;
};

/// Kernels of one instruction set, for one thread.
struct AttentionKernels {
  void (*forward_f32)(const AttentionTask*);
  void (*forward_bf16)(const AttentionTask*);
  void (*backward_f32)(const AttentionTask*);
  void (*backward_bf16)(const AttentionTask*);
  /// Floats of workspace for a sequence of that length.
  int64_t (*forward_workspace)(int64_t length, int64_t width);
  int64_t (*backward_workspace)(int64_t length, int64_t width);
};

extern const AttentionKernels kAttentionPortable;
#if defined(__x86_64__)
extern const AttentionKernels kAttentionAvx2, kAttentionAvx512;
#endif
#if defined(__aarch64__)
extern const AttentionKernels kAttentionNeon;
#endif

}  // namespace lathe::cpu
