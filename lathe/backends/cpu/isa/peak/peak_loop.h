#pragma once
#include "lathe/backends/cpu/isa/peak/peak_kernels.h"

#if defined(__clang__)
#define LATHE_PEAK_UNROLL _Pragma("unroll")
#else
#define LATHE_PEAK_UNROLL _Pragma("GCC unroll 32")
#endif

namespace lathe::cpu {
namespace {  // a copy for each level: see libraries.cmake

// kSums independent chains of `step`, which start at start(float); kFlops: of one step.  Enough sums to hide
// the latency of a multiply-add (4 cycles, two a cycle), few enough for the registers.  For the compiler each
// starts from a different value, or it would compute one chain for all.  The results go where it cannot
// follow.
template <int kSums, int kFlops, typename Start, typename Step>
double peak_loop(int64_t rounds, Start start, Step step) {
  using Sum = decltype(start(0.0f));
  volatile float zero = 0;
  Sum sums[kSums];
  LATHE_PEAK_UNROLL
  for (int i = 0; i < kSums; ++i) sums[i] = start(zero);
  for (int64_t r = 0; r < rounds; ++r) {
    LATHE_PEAK_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = step(sums[i]);
  }
  [[maybe_unused]] volatile Sum sink;
  LATHE_PEAK_UNROLL
  for (int i = 0; i < kSums; ++i) sink = sums[i];
  return static_cast<double>(kSums) * kFlops * static_cast<double>(rounds);
}

}  // namespace
}  // namespace lathe::cpu
