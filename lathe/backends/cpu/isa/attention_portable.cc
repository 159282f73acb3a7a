#define LATHE_ISA_NAMESPACE isa_portable
#include "lathe/backends/cpu/isa/attention_impl.h"

namespace lathe::cpu {
constinit const AttentionKernels kAttentionPortable = isa_portable::attention_table();
}  // namespace lathe::cpu
