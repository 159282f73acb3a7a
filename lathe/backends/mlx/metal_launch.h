#pragma once
#include <array>
#include <string>
#include <vector>

#include "lathe/backends/mlx/metal_kernels.h"

namespace lathe::mlx {

/// What every kernel's text begins with: metal/common.metal.
extern const char* const kMetalCommon;

/// What MLX needs to know about a kernel.  body: the text between the braces of the function.
struct MetalKernel {
  const char* name;
  std::vector<std::string> in, out;
  const char* body;
};
struct Grid {
  int groups, threads;  ///< threads: of a group
};
using Templates = std::vector<std::pair<std::string, mx::fast::TemplateArg>>;

Arrays launch(const MetalKernel& kernel, const Arrays& in, const std::vector<mx::Shape>& shapes,
              const std::vector<mx::Dtype>& dtypes, Grid grid, const Templates& templates);

template <size_t N>
mx::array words(const std::array<int64_t, N>& values) {
  std::array<uint32_t, N> as_words;
  for (size_t i = 0; i < N; ++i) as_words[i] = static_cast<uint32_t>(values[i]);
  return mx::array(as_words.data(), {static_cast<int>(N)}, mx::uint32);
}

/// The kernels of attention (metal_attention.cc).
std::vector<OwnKernel> attention_kernels();

}  // namespace lathe::mlx
