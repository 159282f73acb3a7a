#define LATHE_ISA_NAMESPACE isa_neon
#include "lathe/backends/cpu/isa/rows/rows_impl.h"

namespace lathe::cpu {
constinit const RowKernels kRowsNeon = isa_neon::row_table();
}  // namespace lathe::cpu
