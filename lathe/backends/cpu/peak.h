#pragma once
#include <functional>

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

/// Measures the peaks of all levels up to `isa` by measure_rate() and keeps the best.
Peak measure_peak(ThreadPool& pool, Isa isa);

/// What all threads together do in a second: the sum of their rates in one call of a few milliseconds, in the
/// fastest of several calls.  Each thread works as often as it can, because some may have a core to
/// themselves while others share one.  Work that is dealt out gets this sum; the slowest thread times their
/// number would be less.  work(part): does some microseconds of work on one thread and returns how much it
/// was.  Takes 0.1 s, and up to 1 s until some calls have come near the fastest, since few calls run
/// undisturbed where other programs use the cores.  now: seconds, on the thread that asks; empty: by the
/// clock.
double measure_rate(ThreadPool& pool, const std::function<double(int part)>& work,
                    const std::function<double()>& now = {});

/// Bytes per second, read and written, of a copy of 512 MiB by all threads together.  Errors: kIo without
/// memory.
double measure_copy(ThreadPool& pool);

}  // namespace lathe::cpu
