#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "lathe/core/dtype.h"

namespace lathe::cuda {

struct Product;

/// The product (products.h) by plain multiply-adds in f32: any shape, any alignment.  Where C has few
/// elements, many blocks share each sum, and a second kernel adds their parts in order.
void plain_product(cudaStream_t stream, const Product& p, void* workspace);
/// Pointers are not looked at.
size_t plain_product_workspace_bytes(const Product& p);

/// sums[c] = Σ over the rows of x [rows, cols], in a fixed order.
void column_sums(cudaStream_t stream, DType type, int64_t rows, int64_t cols, const void* x, float* sums,
                 void* workspace);
size_t column_sums_workspace_bytes(int64_t rows, int64_t cols);

}  // namespace lathe::cuda
