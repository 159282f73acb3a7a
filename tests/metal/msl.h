#pragma once
// What kernels in Metal's language take for granted, for clang++ on a CPU: a lane is a fiber (simulator.cc).
// Address spaces are kept apart as Metal keeps them; threadgroup memory lies in a section of its own.
#include <cmath>
#include <cstdint>

#include "tests/metal/simulator.h"

typedef unsigned uint;
typedef _Float16 half;
typedef half float16_t;
typedef __bf16 bfloat16_t;
using std::sqrt;
inline uint mulhi(uint a, uint b) { return static_cast<uint>((uint64_t{a} * b) >> 32); }

enum class mem_flags { mem_none, mem_threadgroup, mem_device };
#define LATHE_SITE __builtin_return_address(0)
__attribute__((noinline)) inline void threadgroup_barrier(mem_flags) {
  lathe::metal::wait(lathe::metal::kAtBarrier, "threadgroup_barrier", LATHE_SITE);
}
__attribute__((noinline)) inline float simd_sum(float x) {
  lathe::metal::put(x);
  lathe::metal::wait(lathe::metal::kAtSimd, "simd_sum", LATHE_SITE);
  float sum = 0;
  for (uint lane = 0; lane < 32; ++lane) sum += lathe::metal::got(lane);
  return sum;
}

namespace lathe::metal {

/// An address that becomes whatever pointer a kernel declares.
struct Argument {
  void* address;
  template <typename T>
  operator T*() const {
    return (T*)address;
  }
};

/// Tells the simulator of a kernel: a static object of this type.
struct Declared {
  Declared(const char* name, Entry entry) { declare(name, entry); }
};

}  // namespace lathe::metal

#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup static __attribute__((section("threadgroup")))
#define double there_is_no_double_in_Metal
