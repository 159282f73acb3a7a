#define LATHE_ISA_NAMESPACE isa_portable
#include "lathe/backends/cpu/isa/rows/rows_impl.h"

namespace lathe::cpu {
constinit const RowKernels kRowsPortable = isa_portable::row_table();
}  // namespace lathe::cpu
