#define LATHE_ISA_NAMESPACE isa_avx512
#include "lathe/backends/cpu/isa/rows/rows_impl.h"

namespace lathe::cpu {
constinit const RowKernels kRowsAvx512 = isa_avx512::row_table();
}  // namespace lathe::cpu
