#include "lathe/backends/cuda/kernels/attention/attention_forward.cuh"

namespace lathe::cuda {
template void attention_forward<__half>(cudaStream_t, const Attention&, const void*, void*, float*);
}  // namespace lathe::cuda
