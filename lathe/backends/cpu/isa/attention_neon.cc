#define LATHE_ISA_NAMESPACE isa_neon
#include "lathe/backends/cpu/isa/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionNeon = isa_neon::attention_table();
}  // namespace lathe::cpu
