#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/transfer.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 32;

__global__ void scatter_kernel(const Scatter scatter, const std::byte* piece) {
  follow();
  const Scatter::Part& part = scatter.parts[blockIdx.y];
  const uint32_t words = part.bytes / sizeof(uint32_t);
  const uint32_t* from = reinterpret_cast<const uint32_t*>(piece + part.offset);
  uint32_t* to = reinterpret_cast<uint32_t*>(part.to);
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < words; i += gridDim.x * kThreads)
    to[i] = from[i];
  if (blockIdx.x == 0 && threadIdx.x < part.bytes % sizeof(uint32_t)) {
    const uint32_t at = words * sizeof(uint32_t) + threadIdx.x;
    part.to[at] = piece[part.offset + at];
  }
}

}  // namespace

void scatter(cudaStream_t stream, const Scatter& parts, const std::byte* piece) {
  if (parts.count == 0) return;
  scatter_kernel<<<dim3(kBlocks, static_cast<unsigned>(parts.count)), kThreads, 0, stream>>>(parts, piece);
}

}  // namespace lathe::cuda
