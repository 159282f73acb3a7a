#include "lathe/backends/cuda/kernels/attention/attention_backward.cuh"

namespace lathe::cuda {
template void attention_backward<__half>(cudaStream_t, cudaStream_t, const Attention&, const void*,
                                         const void*, const void*, const float*, void*, void*);
}  // namespace lathe::cuda
