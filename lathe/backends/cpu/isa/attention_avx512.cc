#define LATHE_ISA_NAMESPACE isa_avx512
#include "lathe/backends/cpu/isa/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionAvx512 = isa_avx512::attention_table();
}  // namespace lathe::cpu
