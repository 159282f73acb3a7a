#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/backends/cuda/kernels/rows/dropout_rule.h"
#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// Attention over packed sequences, and its backward pass.
///
/// Tokens [N], of which row b holds cu[b] … cu[b+1] (empty rows occur); tokens from cu[B] on belong to none.
/// qkv and dqkv: [N, 3, H, D]; y and dy: [N, H, D]; lse: [H, N] f32, natural log of the sum of the
/// exponentials of the scaled scores.  All tensors lie on the device, dense, and so do cu and row_ids: grids
/// depend only on N, B, H and D, so that a captured launch serves any content of them.  Everything is
/// launched on `stream`; nothing waits.  Sums run in a fixed order: the same bits every time.
struct Attention {
  DType t = DType::f32;                                ///< of qkv, y and their gradients
  int64_t tokens = 0, rows = 0, heads = 0, width = 0;  ///< N, B, H, D ≤ 256
  int64_t longest = 0;                                 ///< no row has more tokens; N at most
  float scale = 1;                                     ///< of the scores; any sign, not 0
  int window = 0;                    ///< a query sees keys at most this many tokens away; 0: its whole row
  const int32_t* cu = nullptr;       ///< [B+1], ascending from 0, cu[B] ≤ N
  const int32_t* row_ids = nullptr;  ///< [B]; read if dropout.threshold > 0
  DropoutRule dropout = {};          ///< of the probabilities: row = head << 16 | query, column = key
};

/// Whether the tensor cores' kernels take it: bf16 or f16, D a multiple of 8, with a window 40 to 64, and up
/// to 128 where blocks have little shared memory (compute capability 8.6, 8.9, 12.0).  They round
/// probabilities and gradients of scores to `t` where these are operands of products; scores and sums are
/// f32.
bool attention_on_tensor_cores(DType t, int64_t width, bool window);

/// y and lse; both become 0 at tokens ≥ cu[B].  qkv and y begin at multiples of 16 bytes.
/// Source: Dao 2023 alg. 1 (arXiv 2307.08691).
void attention(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse);

/// dqkv, 0 at tokens ≥ cu[B], from y and lse as the forward pass gave them.  All tensors begin at multiples
/// of 16 bytes.  workspace: attention_bwd_workspace_bytes.  A part is computed on `beside`, which may be
/// `stream`.  Source: Dao 2023 alg. 2.
void attention_bwd(cudaStream_t stream, cudaStream_t beside, const Attention& a, const void* dy,
                   const void* qkv, const void* y, const float* lse, void* dqkv, void* workspace);

/// The same in f32 arithmetic throughout, for every type and D.
void attention_plain(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse);
void attention_bwd_plain(cudaStream_t stream, const Attention& a, const void* dy, const void* qkv,
                         const void* y, const float* lse, void* dqkv, void* workspace);

/// Two f32 for every head and token.
size_t attention_bwd_workspace_bytes(int64_t tokens, int64_t heads);

/// Σ dy∘y of every head and token, [H, N] f32.  t, D: any.
void attention_delta(cudaStream_t stream, const Attention& a, const void* dy, const void* y, float* delta);

}  // namespace lathe::cuda
