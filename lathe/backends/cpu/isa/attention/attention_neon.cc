#define LATHE_ISA_NAMESPACE isa_neon
#include "lathe/backends/cpu/isa/attention/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionF32Neon = isa_neon::attention_table<float>();
constinit const AttentionKernels kAttentionBf16Neon = isa_neon::attention_table<isa_neon::Bf16>();
constinit const AttentionKernels kAttentionF16Neon = isa_neon::attention_table<isa_neon::F16>();
}  // namespace lathe::cpu
