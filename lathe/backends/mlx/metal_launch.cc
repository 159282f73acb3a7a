#include "lathe/backends/mlx/metal_launch.h"

namespace lathe::mlx {

const char* const kMetalCommon =
#include "lathe/backends/mlx/metal/common.metal"
    ;

Arrays launch(const MetalKernel& kernel, const Arrays& in, const std::vector<mx::Shape>& shapes,
              const std::vector<mx::Dtype>& dtypes, Grid grid, const Templates& templates) {
  const auto function = mx::fast::metal_kernel(kernel.name, kernel.in, kernel.out, kernel.body, kMetalCommon);
  return function(in, shapes, dtypes, {grid.groups * grid.threads, 1, 1}, {grid.threads, 1, 1}, templates, {},
                  false, {});
}

}  // namespace lathe::mlx
