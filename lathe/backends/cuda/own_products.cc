#include "lathe/backends/cuda/own_products.h"

#include "lathe/backends/cuda/kernels/products/f32_product.h"
#include "lathe/backends/cuda/kernels/products/few_rows_product.h"
#include "lathe/backends/cuda/kernels/products/weight_gradient.h"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

/// Kernels for few rows read weights while earlier nodes run; timing products one after another does not show
/// that.  With .7 and .85 forward passes took about the same short time, with 1 longer.
constexpr float kReadsAhead = .75f;

constexpr OwnProduct kOwnProducts[] = {
    {"weight_gradient", weight_gradient_ways, weight_gradient_accepts, weight_gradient,
     weight_gradient_blocks, 1},
    {"few_rows", few_rows_product_ways, few_rows_product_accepts, few_rows_product, nullptr, kReadsAhead},
    {"f32", f32_product_ways, f32_product_accepts, f32_product, f32_product_blocks, 1},
};

}  // namespace

std::span<const OwnProduct> own_products() { return kOwnProducts; }

int own_ways() {
  int ways = 0;
  for (const OwnProduct& kernel : kOwnProducts) ways += kernel.ways();
  return ways;
}

std::pair<const OwnProduct*, int> own_product(int number) {
  for (const OwnProduct& kernel : kOwnProducts) {
    if (number < kernel.ways()) return {&kernel, number};
    number -= kernel.ways();
  }
  return {nullptr, 0};
}

bool own_accepts(const Product& p, int number) {
  const auto [kernel, way] = own_product(number);
  return kernel != nullptr && !p.a_padded && !p.c_padded && kernel->accepts(p, way);
}

}  // namespace lathe::cuda
