#pragma once
#include <cuda_runtime_api.h>

#include <span>
#include <utility>

namespace lathe::cuda {

struct Product;

/// A kernel that may compute a product instead of the library, in some ways.
struct OwnProduct {
  const char* name;
  int (*ways)();
  bool (*accepts)(const Product&, int way);
  cudaError_t (*launch)(cudaStream_t, const Product&, int way);
  int (*blocks)(const Product&, int way);  ///< each of a multiprocessor; null: not known
  float weight;                            ///< by which its time is multiplied when it is compared
};

/// All of them.  Choices that are written down number their ways, one kernel's after the other's.
std::span<const OwnProduct> own_products();
int own_ways();
/// The kernel of a number, and its way; null if there is none.
std::pair<const OwnProduct*, int> own_product(int number);
bool own_accepts(const Product& p, int number);

}  // namespace lathe::cuda
