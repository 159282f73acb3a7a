#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

struct Product;

/// The product (products.h) by plain multiply-adds in f32: any shape, any alignment.  Where C has few
/// elements, many blocks share each sum, and a second kernel adds their parts in order.
void plain_product(cudaStream_t stream, const Product& p, void* workspace);
/// Pointers are not looked at.
size_t plain_product_workspace_bytes(const Product& p);

}  // namespace lathe::cuda
