#define LATHE_ISA_NAMESPACE isa_avx2
#include "lathe/backends/cpu/isa/rows/rows_impl.h"

namespace lathe::cpu {
constinit const RowKernels kRowsAvx2 = isa_avx2::row_table();
}  // namespace lathe::cpu
