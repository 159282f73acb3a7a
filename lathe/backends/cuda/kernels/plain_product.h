#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

struct Product;

/// The product (products.h) by plain multiply-adds in f32: any shape, any alignment.
void plain_product(cudaStream_t stream, const Product& p, void* workspace);

}  // namespace lathe::cuda
