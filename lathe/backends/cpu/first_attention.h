#pragma once
#include <cstddef>
#include <cstdint>

#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/isa/rows/rows_kernels.h"
#include "lathe/core/dtype.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// op::first_attention and its backward pass.
///
/// Tokens x [N, C], of which sequence b holds cu[b] … cu[b+1]; w [3 C, C], b [3 C] give q, k and v of H
/// heads. x, y, q and seen are f32, bf16 or f16 (`t`), as are the operands of products with w, which is
/// rounded to it; scores, probabilities and all sums are f32.  Each element is computed by one thread: bits
/// do not depend on the number of threads.
struct FirstAttention {
  DType t = DType::f32;
  int64_t tokens = 0, sequences = 0, heads = 0, columns = 0;  ///< N, B, H, C; H divides C
  int64_t ld = 0;                                             ///< of x and dx: elements from token to token
  const int32_t* cu = nullptr;                                ///< [B+1], ascending from 0, cu[B] ≤ N
  const int32_t* sample_ids = nullptr;                        ///< [B]; read if dropout.threshold > 0
  DropoutRule dropout = {};  ///< of the probabilities: row = head << 16, column = key
};

/// What the forward pass gives: y, q [B, C]; sought, seen [B, H, C]; p [H, N].  0 for empty sequences, and p
/// for tokens ≥ cu[B].
struct FirstAttentionResults {
  void *y, *q;
  float* sought;
  void* seen;
  float* p;
};
void first_attention(ThreadPool& pool, Isa isa, const FirstAttention& a, const void* x, const float* w,
                     const float* b, const FirstAttentionResults& out, void* workspace);

/// dx: rows of tokens ≥ cu[B] become 0.  dw, of any of the types: [3 C, C]; db: [3 C].  saved: what the
/// forward pass gave; y is not read.
void first_attention_bwd(ThreadPool& pool, Isa isa, const FirstAttention& a, const void* dy, const void* x,
                         const float* w, const float* b, const FirstAttentionResults& saved, void* dx,
                         DType dw_type, void* dw, float* db, void* workspace);

/// Workspaces, 64-byte aligned.
size_t first_attention_workspace_bytes(Isa isa, const FirstAttention& a, int threads);
size_t first_attention_bwd_workspace_bytes(Isa isa, const FirstAttention& a, int threads);

}  // namespace lathe::cpu
