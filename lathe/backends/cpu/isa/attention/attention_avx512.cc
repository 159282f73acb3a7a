#define LATHE_ISA_NAMESPACE isa_avx512
#include "lathe/backends/cpu/isa/attention/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionF32Avx512 = isa_avx512::attention_table<float>();
constinit const AttentionKernels kAttentionBf16Avx512 = isa_avx512::attention_table<isa_avx512::Bf16>();
constinit const AttentionKernels kAttentionF16Avx512 = isa_avx512::attention_table<isa_avx512::F16>();
}  // namespace lathe::cpu
