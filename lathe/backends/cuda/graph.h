#pragma once
#include <cuda_runtime_api.h>

#include <functional>

#include "lathe/program/backend.h"

namespace lathe::cuda {

/// Memory on the device.
struct Region {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

/// What is launched on a stream, captured once and replayed.  Each kernel of this project in it may be
/// launched while the kernel before it still runs: it waits for that one itself, by `follow` of
/// kernels/common.cuh (devices from sm_90 on).
class Graph {
 public:
  /// Nothing that `launches` puts on `stream` runs yet.  `zeroed` is filled with zeros before all else, once
  /// a run, and fills with zeros within it are left out: libraries put one in front of a kernel that counts,
  /// which then waits for two nodes instead of one.  Errors: kInternal, and what `launches` throws.
  Graph(cudaStream_t stream, const std::function<void()>& launches, Region zeroed = {});
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  operator cudaGraphExec_t() const { return executable_; }

  /// Its nodes that are no events.
  const Launches& launches() const { return launches_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  Launches launches_;
};

}  // namespace lathe::cuda
