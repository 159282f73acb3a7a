#define LATHE_ISA_NAMESPACE isa_portable
#include "lathe/backends/cpu/isa/attention/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionF32Portable = isa_portable::attention_table<float>();
constinit const AttentionKernels kAttentionBf16Portable = isa_portable::attention_table<isa_portable::Bf16>();
constinit const AttentionKernels kAttentionF16Portable = isa_portable::attention_table<isa_portable::F16>();
}  // namespace lathe::cpu
