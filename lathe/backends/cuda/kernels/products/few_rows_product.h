#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

struct Product;

/// Products of few rows, A[m,k] · B[n,k]ᵀ in bf16 or f16 with bias and GELU (products.h: p.gelu), for GPUs of
/// compute capability 9.0: what takes time is reading B, so that all multiprocessors take a part of it, and
/// begin before A is there if nothing writes B in the meantime (p.b_is_settled).  Sums are in f32 and in a
/// fixed order, so that equal calls give equal bits.  Ways to do it: columns of a tile, parts of the sums.
int few_rows_product_ways();
/// Whether this GPU, this build and `way` (0 ≤ way < ways) can do it: m up to 512, k and n multiples of 8,
/// addresses of 16 bytes, C of A's type, parts of k that fit into the multiprocessors' memory.
bool few_rows_product_accepts(const Product& p, int way);
/// Launches it.
cudaError_t few_rows_product(cudaStream_t stream, const Product& p, int way);

}  // namespace lathe::cuda
