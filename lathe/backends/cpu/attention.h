#pragma once
#include <cstddef>
#include <cstdint>

#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/isa/attention/attention_kernels.h"
#include "lathe/core/dtype.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// The kernels of an instruction set for tensors of dtype `t`: f32, bf16 or f16 (levels without their own
/// take the next lower one).  Errors: none; the level must be one of `available_isas()`.
const AttentionKernels& attention_kernels(Isa isa, DType t);

/// Attention over packed sequences, and its backward pass.
///
/// Tokens [N], of which sequence b holds cu[b] … cu[b+1]; tokens from cu[B] on belong to none.  q and its
/// gradient: [N, H, D], k, v and theirs: [N, K, D], head h / (H / K) for head h of q, tokens `qkv_stride`
/// elements apart; out and dout: [N, H, D], `out_stride` apart; each is f32, bf16 or f16 (`t`).  Scores,
/// probabilities and sums are f32; what is stored is rounded once.  Where the processor multiplies bf16,
/// products of bf16 tensors take probabilities and gradients of scores rounded to bf16.  One thread computes
/// each (sequence, head) of the forward pass, of a longer sequence in pieces of up to 512 queries, and each
/// (sequence, head of k and v) of the backward pass.  So the bits depend neither on the number of threads nor
/// on the other sequences.
struct Attention {
  DType t = DType::f32;
  int64_t tokens = 0, sequences = 0, heads = 0, width = 0;  ///< N, B, H, D ≤ 256
  int64_t kv_heads = 0;                                     ///< K, which divides H; 0: H
  int64_t qkv_stride = 0, out_stride = 0;                   ///< 0: H · D
  float scale = 0;                                          ///< 0: 1/√D
  bool causal = false;                                      ///< a query sees no keys after it
  int64_t window = 0;           ///< a query sees keys at most this many tokens away; 0: its whole sequence
  const int32_t* cu = nullptr;  ///< [B+1], ascending from 0, cu[B] ≤ N
  const int32_t* sample_ids = nullptr;  ///< [B]; read if dropout.threshold > 0
  bool results_are_cold = false;        ///< no cache holds them: a kernel may write past the caches
  DropoutRule dropout = {};             ///< of the probabilities: row = head << 16 | query, column = key
};

/// out: rows of tokens ≥ cu[B] become 0.  lse: [H, N], natural log of the sum of the exponentials of the
/// scaled scores, 0 for tokens ≥ cu[B].
/// Source: Dao 2023 alg. 1 (arXiv 2307.08691).
void attention(ThreadPool& pool, Isa isa, const Attention& a, const void* q, const void* k, const void* v,
               void* out, float* lse, void* workspace);

/// out and lse as the forward pass gave them.  dq, dk, dv: rows of tokens ≥ cu[B] become 0; they must not
/// overlap the inputs.  Source: Dao 2023 alg. 2.
void attention_bwd(ThreadPool& pool, Isa isa, const Attention& a, const void* dout, const void* q,
                   const void* k, const void* v, const void* out, const float* lse, void* dq, void* dk,
                   void* dv, void* workspace);

/// Workspace of either pass, 64-byte aligned, for sequences of up to `longest` tokens (N if nothing is
/// known). Keys are taken in blocks of up to 512, so beyond that it stops growing, except in the backward
/// pass for the f32 gradients of the queries of H / K heads, the group.
size_t attention_workspace_bytes(Isa isa, DType t, int64_t longest, int64_t width, int threads);
size_t attention_bwd_workspace_bytes(Isa isa, DType t, int64_t longest, int64_t width, int64_t group,
                                     int threads);

}  // namespace lathe::cpu
