#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

/// Lets each kernel of this project in `graph` be launched while the kernel before it still runs: it waits
/// for that one itself, by `follow` of kernels/common.cuh.  On devices before sm_90 nothing changes.
/// Errors: throws kInternal.
void launch_ahead(cudaGraph_t graph);

}  // namespace lathe::cuda
