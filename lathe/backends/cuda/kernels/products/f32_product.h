#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

struct Product;

/// Products of f32 on the tensor cores of GPUs of compute capability 9.0 (products.h).  A number is the sum
/// of three of bf16, exactly; of the nine products of two of them the six of up to 2⁻¹⁸ are summed, what is
/// left out is below 2⁻²⁵ of each product.  Tensor cores sum 64 of k, small products first, so that four
/// additions of large ones round towards zero, each by up to 2⁻²³ and as much again for products that are
/// shifted to the largest; those sums are added to the nearest.  So a result is off by at most (2⁻²⁰ + 2⁻²⁴ ·
/// k / 64) · Σ |a · b|, where k additions of f32 may be off by 2⁻²⁴ · k.  Infinite operands, and those above
/// 2¹²⁸ − 2¹¹⁹, give NaN.  Sums are in a fixed order, so that equal calls give equal bits. Source: Ootomo and
/// Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
/// performance", 2022, which has two parts of f16 and adds outside, too. Ways to do it: tiles of C, parts of
/// the sums.
int f32_product_ways();
/// Whether this GPU, this build and `way` (0 ≤ way < ways) can do it: all of f32, not both transposed, rows
/// of 16 bytes, addresses of 16 bytes but for the bias, no fewer slices of 64 of k than parts.
bool f32_product_accepts(const Product& p, int way);
/// Blocks of it, of which each takes a multiprocessor or half of one.
int f32_product_blocks(const Product& p, int way);
/// Launches it.
cudaError_t f32_product(cudaStream_t stream, const Product& p, int way);

}  // namespace lathe::cuda
