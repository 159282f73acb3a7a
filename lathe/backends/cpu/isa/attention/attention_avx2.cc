#define LATHE_ISA_NAMESPACE isa_avx2
#include "lathe/backends/cpu/isa/attention/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionF32Avx2 = isa_avx2::attention_table<float>();
constinit const AttentionKernels kAttentionBf16Avx2 = isa_avx2::attention_table<isa_avx2::Bf16>();
constinit const AttentionKernels kAttentionF16Avx2 = isa_avx2::attention_table<isa_avx2::F16>();
}  // namespace lathe::cpu
