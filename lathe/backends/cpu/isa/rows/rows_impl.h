// The table of row kernels of one instruction set.  A source of isa/ defines LATHE_ISA_NAMESPACE, includes
// this and defines its table as `row_table()`.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_dropout.h"
#include "lathe/backends/cpu/isa/rows/rows_flat.h"
#include "lathe/backends/cpu/isa/rows/rows_norm.h"
#include "lathe/backends/cpu/isa/rows/rows_pointwise.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

template <typename T>
constexpr StorageKernels storage_table() {
  return {layer_norm<T>,
          layer_norm_bwd<T>,
          rms_norm<T>,
          rms_norm_bwd<T>,
          column_sums<T>,
          gelu<T, false>,
          gelu<T, true>,
          relu<T>,
          tanh_row<T>,
          gelu_bwd<T>,
          relu_bwd<T>,
          tanh_bwd<T>,
          {gated<T, Gelu<T>>, gated<T, Silu>, gated<T, GeluTanh>},
          {gated_bwd<T, Gelu<T>>, gated_bwd<T, Silu>, gated_bwd<T, GeluTanh>},
          rotate<T>,
          add<T>,
          mul<T>,
          scale<T>,
          to_f32<T>,
          from_f32<T>,
          dropout<T>,
          sum_of_squares<T>,
          sum_rows_to<float, T, float>,
          sum_rows_to<Bf16, T, void>,
          sum_rows_to<F16, T, void>};
}

constexpr RowKernels row_table() {
  return {storage_table<float>(),
          storage_table<Bf16>(),
          storage_table<F16>(),
          sum_blocks,
          adamw,
          accumulate,
          log_sum_exp,
          softmax_bwd,
          fence};
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
