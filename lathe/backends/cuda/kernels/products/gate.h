#pragma once
#include <cuda_runtime_api.h>

namespace lathe::cuda {

/// Does nothing.  What follows it on `stream` is launched after what became ready at the same time on other
/// streams, so those take multiprocessors first.
void gate(cudaStream_t stream);

}  // namespace lathe::cuda
