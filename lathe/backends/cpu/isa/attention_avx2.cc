#define LATHE_ISA_NAMESPACE isa_avx2
#include "lathe/backends/cpu/isa/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionAvx2 = isa_avx2::attention_table();
}  // namespace lathe::cpu
