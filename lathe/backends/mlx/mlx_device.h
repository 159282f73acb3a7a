#pragma once
#include <string>

#include "lathe/backends/mlx/module.h"

namespace lathe::mlx {

/// What MLX calls the device that it takes, with its memory; `available`: false, and why, where a Mac has no
/// Metal.
bool describe(std::string* detail);

/// The device.  fallback: runs ops without an implementation, of which `warn` is told once each; null:
/// nothing does.  group: the ranks of all_reduce, all_gather and gather_ranks; null: this process only.  Ops
/// named in LATHE_MLX_MASK (op,op) count as such, for tests.
std::unique_ptr<Backend> make_device(std::shared_ptr<Backend> fallback, std::shared_ptr<ProcessGroup> group,
                                     Warn warn);

/// Memory of MLX's arrays now, and at its most.
size_t live_bytes();
size_t peak_bytes();

}  // namespace lathe::mlx
