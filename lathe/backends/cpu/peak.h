#pragma once
#include "lathe/backends/cpu/isa.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// Floating-point operations per second of all threads together, a multiply-add counted as two: independent
/// sums that stay in registers, by the fastest instruction up to a level.  bf16: products of bf16 (or of f32,
/// where those are faster) with f32 sums.
struct Peak {
  double f32 = 0, bf16 = 0;
  double bf16_from_l2 = 0;  ///< with operands read from a buffer of 1 MiB per thread; bf16 without AMX
};

/// Measures the peaks of all levels up to `isa`, which takes about a tenth of a second for each kernel and up
/// to a second where other programs have the cores, and keeps the best.
Peak measure_peak(ThreadPool& pool, Isa isa);

/// Bytes per second, read and written, of a copy of 512 MiB by all threads together.  Errors: kIo without
/// memory.
double measure_copy(ThreadPool& pool);

}  // namespace lathe::cpu
