#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lathe::cuda {

/// The inputs of a run, which arrive as one piece, and where each belongs.
struct Scatter {
  static constexpr int kMost = 16;
  int count = 0;
  struct Part {
    std::byte* to;
    uint32_t offset, bytes;  ///< in the piece; offset a multiple of 16
  } parts[kMost];
};

/// Copies every part from `piece` to its place.
void scatter(cudaStream_t stream, const Scatter& parts, const std::byte* piece);

}  // namespace lathe::cuda
