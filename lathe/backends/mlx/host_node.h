#pragma once
#include "lathe/backends/mlx/lowering.h"

namespace lathe::mlx {

/// An implementation of any op that runs on another device of the host, over the same memory: how ops work
/// that have none here.  Accepts what `host` accepts.
std::unique_ptr<MlxImpl> host_impl(std::shared_ptr<Backend> host, mx::Stream stream);

}  // namespace lathe::mlx
