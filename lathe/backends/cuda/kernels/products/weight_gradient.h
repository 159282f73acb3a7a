#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

struct Product;

/// The gradient of a linear layer's weight, and of its bias where p.a_sums is given, in one kernel for GPUs
/// of compute capability 9.0: Aᵀ · B of A[k,m] and B[k,n] in bf16 or f16 (products.h).  Sums are in f32 and
/// in a fixed order, so that equal calls give equal bits. Ways to do it: tiles of C of different sizes, and
/// sums over k in one part or in several.
int weight_gradient_ways();
/// Whether this GPU, this build and `way` (0 ≤ way < ways) can do it: only A transposed, m and n multiples of
/// 64, addresses of 16 bytes, no bias, no addend, and C in f32 or A's type.
bool weight_gradient_accepts(const Product& p, int way);
/// Blocks of it, of which each takes a multiprocessor.
int weight_gradient_blocks(const Product& p, int way);
/// Launches it.
cudaError_t weight_gradient(cudaStream_t stream, const Product& p, int way);

}  // namespace lathe::cuda
