#include "lathe/backends/cuda/device.h"

#include <atomic>

#include "lathe/backends/cuda/cuda_backend.h"

namespace lathe::cuda {
namespace {

std::atomic<size_t> held{0}, most_held{0};  // bytes of device memory

void hold(size_t bytes) {
  const size_t now = held += bytes;
  size_t most = most_held;
  while (now > most && !most_held.compare_exchange_weak(most, now)) continue;
}

}  // namespace

size_t peak_bytes() { return most_held; }

Status status_of(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // it would be reported once more by the next launch
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::kMemory : ErrorCode::kInternal;
  return {code, fmt::format("cuda: {}: {}", doing, cudaGetErrorString(error))};
}

void check(cudaError_t error, const char* doing) { status_of(error, doing).check(); }

cudaDeviceProp current_gpu() {
  int device = 0;
  cudaDeviceProp gpu{};
  check(cudaGetDevice(&device), "asking for the GPU");
  check(cudaGetDeviceProperties(&gpu, device), "asking for the GPU");
  return gpu;
}

std::string why_too_old(const cudaDeviceProp& gpu) {
  if (gpu.major >= 8) return "";
  return fmt::format("the GPU, {}, has compute capability {}.{}, expected 8.0 or higher", gpu.name, gpu.major,
                     gpu.minor);
}

Stream::Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
Stream::~Stream() { cudaStreamDestroy(stream_); }

Mark::Mark(bool timed) {
  check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming),
        "creating an event");
}
Mark::~Mark() { cudaEventDestroy(event_); }

Result<Buffer> allocate(size_t bytes, Memory kind, cudaStream_t stream) {
  void* data = nullptr;
  const bool device = kind == Memory::kDevice;
  const cudaError_t error = device ? cudaMalloc(&data, bytes) : cudaMallocHost(&data, bytes);
  if (const Status status = status_of(error, "allocating"); !status.ok()) {
    if (status.code() != ErrorCode::kMemory) return status;
    return Status(ErrorCode::kMemory, fmt::format("out of {} memory: {} bytes needed; a smaller batch or "
                                                  "model needs less",
                                                  device ? "GPU" : "pinned", bytes));
  }
  std::shared_ptr<void> owner(data, [device, bytes](void* p) {
    device ? cudaFree(p) : cudaFreeHost(p);
    if (device) held -= bytes;
  });
  if (device) {
    hold(bytes);
    const Status zeroed = status_of(cudaMemsetAsync(data, 0, bytes, stream), "clearing memory");
    if (!zeroed.ok()) return zeroed;
  }
  return Buffer{std::move(owner), static_cast<std::byte*>(data), bytes};
}

}  // namespace lathe::cuda
