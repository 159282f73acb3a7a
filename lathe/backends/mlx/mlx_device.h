#pragma once
#include <string>

#include "lathe/program/backend.h"

namespace lathe::mlx {

/// What MLX calls the device that it takes, with its memory; `available`: false, and why, where a Mac has no
/// Metal.
bool describe(std::string* detail);

/// The device.  fallback: runs ops without an implementation; null: nothing does.  Ops named in
/// LATHE_MLX_MASK (op,op) count as such, for tests.
std::unique_ptr<Backend> make_device(std::shared_ptr<Backend> fallback);

}  // namespace lathe::mlx
