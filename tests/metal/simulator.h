#pragma once
#include <cstdint>

// One threadgroup after another, every lane a fiber.  A simdgroup runs as far as its next threadgroup barrier
// before another begins, and a lane of it as far as its next collective: a result that needs a barrier that
// is not there is wrong in one of the two orders, and a race is one for ThreadSanitizer in either.

namespace lathe::metal {

typedef uint32_t uint3 __attribute__((ext_vector_type(3)));

/// What a lane can ask of its place, by Metal's names.
struct Place {
  uint3 thread_position_in_grid, threadgroup_position_in_grid;
  uint32_t thread_index_in_threadgroup, thread_index_in_simdgroup, simdgroup_index_in_threadgroup,
      simdgroups_per_threadgroup;
};
using Entry = void (*)(void** arguments, const Place& place);
void declare(const char* name, Entry entry);

// ---- for the lane that runs

enum Waiting { kRuns, kAtBarrier, kAtSimd, kDone };
/// Until its threadgroup or simdgroup has arrived at the same site.  Collectives of a simdgroup order no
/// memory.
void wait(Waiting waiting, const char* what, void* site);
/// Another lane's x, and the sum over the simdgroup.
float shared(float x, uint32_t lane, const char* what, void* site);
float sum(float x, const char* what, void* site);
/// A lane's elements of an 8 x 8 matrix, two neighbours: lane l has those of row l / 4 from column 2 (l % 4).
typedef float Pair __attribute__((ext_vector_type(2)));
/// a b + c
Pair multiply(Pair a, Pair b, Pair c, const char* what, void* site);
const Place& place();

}  // namespace lathe::metal

using uint3 = lathe::metal::uint3;

extern "C" {
/// Runs a kernel.  order: 0 or 1, the last first.  Returns what went wrong; null if nothing did.
const char* lathe_simulate(const char* kernel, void** arguments, uint32_t groups, uint32_t threads,
                           int order);
}
