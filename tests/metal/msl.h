#pragma once
// What kernels in Metal's language take for granted, for clang++ on a CPU: a lane is a fiber (simulator.cc).
// Address spaces are kept apart as Metal keeps them; threadgroup memory is in its own section.
#include <cmath>
#include <cstdint>

#include "tests/metal/simulator.h"

typedef unsigned uint;
typedef _Float16 half;
typedef half float16_t;
typedef __bf16 bfloat16_t;
typedef uint64_t ulong;
using std::exp;
using std::log;
using std::sqrt;
inline float max(float a, float b) { return std::fmax(a, b); }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline uint mulhi(uint a, uint b) { return static_cast<uint>((uint64_t{a} * b) >> 32); }

enum class mem_flags { mem_none, mem_threadgroup, mem_device };
#define LATHE_SITE __builtin_return_address(0)
__attribute__((noinline)) inline void threadgroup_barrier(mem_flags) {
  lathe::metal::wait(lathe::metal::kAtBarrier, "threadgroup_barrier", LATHE_SITE);
}
__attribute__((noinline)) inline float simd_sum(float x) {
  return lathe::metal::sum(x, "simd_sum", LATHE_SITE);
}
__attribute__((noinline)) inline float simd_shuffle_xor(float x, uint16_t mask) {
  const uint lane = lathe::metal::place().thread_index_in_simdgroup;
  return lathe::metal::shared(x, lane ^ mask, "simd_shuffle_xor", LATHE_SITE);
}

/// What a lane holds of it.  A vector, for an element of an array beyond its end is then seen where it is
/// read.
typedef lathe::metal::Pair simdgroup_float8x8;
template <typename T, int kColumns, int kRows = kColumns>
simdgroup_float8x8 make_filled_simdgroup_matrix(T value) {
  static_assert(kColumns == 8 && kRows == 8);
  return {value, value};
}
// Only from and to threadgroup memory; neither orders memory.
inline void simdgroup_load(simdgroup_float8x8& to, const float* from, ulong stride, ulong origin = 0,
                           bool transpose = false) {
  const uint lane = lathe::metal::place().thread_index_in_simdgroup, row = lane / 4, column = lane % 4 * 2;
  from += origin * stride + origin;
  for (uint i = 0; i < 2; ++i)
    to[i] = transpose ? from[(column + i) * stride + row] : from[row * stride + column + i];
}
inline void simdgroup_store(simdgroup_float8x8 from, float* to, ulong stride) {
  const uint lane = lathe::metal::place().thread_index_in_simdgroup, row = lane / 4, column = lane % 4 * 2;
  for (uint i = 0; i < 2; ++i) to[row * stride + column + i] = from[i];
}
__attribute__((noinline)) inline void simdgroup_multiply_accumulate(simdgroup_float8x8& d,
                                                                    simdgroup_float8x8 a,
                                                                    simdgroup_float8x8 b,
                                                                    simdgroup_float8x8 c) {
  d = lathe::metal::multiply(a, b, c, "simdgroup_multiply_accumulate", LATHE_SITE);
}
__attribute__((noinline)) inline void simdgroup_multiply(simdgroup_float8x8& d, simdgroup_float8x8 a,
                                                         simdgroup_float8x8 b) {
  d = lathe::metal::multiply(a, b, simdgroup_float8x8(0), "simdgroup_multiply", LATHE_SITE);
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
