#pragma once
#include <set>

#include "lathe/backends/mlx/metal_kernels.h"

namespace lathe::metal {

/// What MLX would compile and start for one kernel: `source` is the text that Metal gets, as MLX writes it.
struct KernelLaunch {
  std::string name, source;
  uint32_t groups = 0, threads = 0;
};

/// Runs a kernel; null if nothing went wrong (simulator.h).
using Simulate = const char* (*)(const char* kernel, void** arguments, uint32_t groups, uint32_t threads,
                                 int order);

/// A device whose only implementations are the own Metal kernels.  Their lowering is the one that ships: MLX
/// traces it, as it does to export a function, and this device runs the kernels of that graph by `simulate`.
/// Tensors have NaN before and after them, and outputs within.
/// Without `simulate` it runs nothing, outputs stay as they are, and only `on_launch` sees the kernels.
std::unique_ptr<Backend> make_simulated_device(Simulate simulate, int order,
                                               std::function<void(const KernelLaunch&)> on_launch);

}  // namespace lathe::metal
