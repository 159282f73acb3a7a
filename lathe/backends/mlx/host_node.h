#pragma once
#include "lathe/backends/mlx/lowering.h"

namespace lathe::mlx {

/// An implementation of any op that runs on another device of the host, over the memory of MLX's arrays: how
/// ops work that have none here.  What an op updates in place is a new array, of which the old one's content
/// is the first.  Accepts what `host` accepts, but for views.
std::unique_ptr<MlxImpl> host_impl(std::shared_ptr<Backend> host, mx::Stream stream);

}  // namespace lathe::mlx
