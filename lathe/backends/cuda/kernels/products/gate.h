#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

/// Does nothing.  What follows it on `stream` is launched behind what became ready together with it on other
/// streams, which takes its multiprocessors first.
void gate(cudaStream_t stream);

}  // namespace lathe::cuda
