#pragma once
#include "lathe/backends/mlx/lowering.h"

namespace lathe::mlx {

/// Implementations by own Metal kernels, whose texts are lathe/backends/mlx/metal/*.metal.  No Metal compiler
/// has seen them before a user's does, so the device takes one only where a self-test on that chip has found
/// it right and faster (lathe/program/kernel_verdicts.h).  The op's twin: its parts, lowered one by one.
struct OwnKernel {
  Entry entry;
  std::string text;  ///< all that Metal compiles for it, but for the signature, which MLX writes
};
std::vector<OwnKernel> own_kernels();

/// What a verdict on a kernel holds for: the chip, MLX's version, the op and its text.
std::string kernel_key(const OwnKernel& kernel, const std::string& chip);

}  // namespace lathe::mlx
