#pragma once
#include <memory>
#include <string>

#include "lathe/program/backend.h"

namespace lathe::cuda {

/// Whether the device can be used: its code is in this binary, and a driver and a GPU are here.
struct Presence {
  bool built = false, available = false;
  std::string detail;  ///< the GPU's name and memory, or what is missing and what to do
};
Presence presence();

/// Floating-point operations per second of one large matrix product with random operands; takes about half a
/// second.
struct Peak {
  double f32 = 0, bf16 = 0;
};
Peak measure_peak();
/// Bytes per second, read and written, of a copy on the device that is too large for its caches.
double measure_copy();

/// The most memory of the GPU that this process held at once.
size_t peak_bytes();

/// The first NVIDIA GPU or, with a group, the GPU of the rank's local number: cuBLASLt for the products, own
/// kernels for the rest, every program one CUDA graph.  tf32: products of f32 round their operands to 10 bits
/// of mantissa.  group: all_reduce sums among these ranks through NCCL, at the same time as the nodes that
/// follow, and all_gather gathers.  Errors: kNotFound where `presence` says that the GPU is not available, or
/// where NCCL is missing; kUsage if there are fewer GPUs than ranks on this machine.
std::unique_ptr<Backend> make_cuda_backend(bool tf32 = false, std::shared_ptr<ProcessGroup> group = {});

}  // namespace lathe::cuda
