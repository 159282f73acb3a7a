// Stands for the device in binaries that are built without nvcc.
#include "lathe/backends/cuda/cuda_backend.h"

namespace lathe::cuda {

Presence presence() {
  return {false, false, "not built into this binary; `make CUDA=1` builds it (needs nvcc)"};
}

Peak measure_peak() { return {}; }
double measure_copy() { return 0; }
size_t peak_bytes() { return 0; }

std::unique_ptr<Backend> make_cuda_backend(bool, std::shared_ptr<ProcessGroup>) {
  fail(ErrorCode::kNotFound, "cuda: {}", presence().detail);
}

}  // namespace lathe::cuda
