#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "lathe/core/process_group.h"

namespace lathe::cuda {

/// A rank's end of NCCL, which sums and gathers between GPUs.  The library is looked up when the program
/// runs.
class Nccl {
 public:
  /// Joins the group's ranks, each with the device that is current; they agree on it through the group.
  /// Errors: kNotFound where the library is not here, kUsage where two ranks have one device, kInternal with
  /// NCCL's words, those of the group.
  explicit Nccl(ProcessGroup& group);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// values[i] = Σ over ranks, f32 or bf16, in place, on the stream; may be captured.  Errors: kInternal.
  void sum(cudaStream_t stream, DType dtype, void* values, size_t count) const;
  /// values: parts of counts[r] elements one after another; this rank holds its own part and gets those of
  /// the others.  On the stream; may be captured.  Errors: kInternal.
  void gather(cudaStream_t stream, float* values, std::span<const int64_t> counts) const;
  /// all: the `count` values of every rank, by rank; apart from them.  On the stream; may be captured.
  /// Errors: kInternal.
  void gather(cudaStream_t stream, const float* values, size_t count, float* all) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe::cuda
