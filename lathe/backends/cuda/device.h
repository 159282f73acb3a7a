#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "lathe/program/backend.h"

namespace lathe::cuda {

/// What the CUDA runtime answered, as a Status: "cuda: copying: an illegal memory access was encountered".
/// The runtime forgets it, so that the next call does not fail because of it.
Status status_of(cudaError_t error, const char* doing);
/// Throws it.
void check(cudaError_t error, const char* doing);

/// The GPU that is current.  Throws.
cudaDeviceProp current_gpu();
/// Why the kernels of this project do not run on a GPU: it is older than they are compiled for; else empty.
std::string why_too_old(const cudaDeviceProp& gpu);

/// A stream that does not wait for the default one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream, for waiting or for taking time.
class Mark {
 public:
  explicit Mark(bool timed = false);
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Of the device, zero, or of the host, from which copies are fast.
enum class Memory { kDevice, kPinned };
/// Errors: kMemory.
Result<Buffer> allocate(size_t bytes, Memory kind, cudaStream_t stream);

}  // namespace lathe::cuda
