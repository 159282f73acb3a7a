#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/products/gate.h"

namespace lathe {
namespace {

using cuda::follow;

/// Outside of namespace lathe::cuda, so that a graph launches it when all before it is done (graph.h).
__global__ void gate_kernel() { follow(); }

}  // namespace

void cuda::gate(cudaStream_t stream) { gate_kernel<<<1, 1, 0, stream>>>(); }

}  // namespace lathe
