#define LATHE_ISA_NAMESPACE isa_avx512bf16
#include "lathe/backends/cpu/isa/rows/rows_impl.h"

namespace lathe::cpu {
constinit const RowKernels kRowsAvx512Bf16 = isa_avx512bf16::row_table();
}  // namespace lathe::cpu
