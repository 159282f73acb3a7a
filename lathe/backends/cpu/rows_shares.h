#pragma once
// What the methods of Rows share: dealing rows to threads, and kernels and addresses by storage.
#include <algorithm>
#include <cstring>

#include "lathe/backends/cpu/rows.h"
#include "lathe/core/ceil_div.h"

namespace lathe::cpu {

/// Elements below which a second thread costs more than it saves.
inline constexpr int64_t kWorthThreads = 16384;

/// Ranges per thread: enough that a thread that finishes early takes over some of another's.
inline constexpr int64_t kRangesOfAThread = 8;

/// Elements with which a share may begin, so that it begins on a cache line of its own.
inline constexpr int64_t kLine = 64;

/// f(begin, end) on ranges that together are `items`; each item is `each` elements of work.  Ranges begin at
/// multiples of `step`.
template <typename F>
void for_shares(ThreadPool& pool, int64_t items, int64_t each, int64_t step, F f) {
  if (items <= 0) return;
  if (items * each < kWorthThreads || pool.size() == 1) return f(int64_t{0}, items);
  const int ranges = pool.size() * static_cast<int>(kRangesOfAThread);
  pool.deal(ranges);
  pool.run([&](int part, int) {
    for (long i; (i = pool.next_item(part)) >= 0;) {
      const Share s = share(ceil_div(items, step), static_cast<int>(i), ranges);
      const int64_t begin = s.begin * step, end = std::min<int64_t>(items, s.end * step);
      if (begin < end) f(begin, end);
    }
  });
}

inline const StorageKernels& of(const RowKernels& kernels, DType t) {
  return t == DType::bf16 ? kernels.bf16 : t == DType::f16 ? kernels.f16 : kernels.f32;
}
inline const std::byte* at(const void* x, int64_t i, DType t) {
  return static_cast<const std::byte*>(x) + static_cast<size_t>(i) * size_of(t);
}
inline std::byte* at(void* x, int64_t i, DType t) {
  return static_cast<std::byte*>(x) + static_cast<size_t>(i) * size_of(t);
}

/// y = x in another storage; x may be y where they are the same.
inline void convert(const RowKernels& kernels, DType from, DType to, int64_t n, const void* x, void* y) {
  if (from == to) {
    std::memmove(y, x, static_cast<size_t>(n) * size_of(to));
  } else if (to == DType::f32) {
    of(kernels, from).to_f32(n, x, static_cast<float*>(y));
  } else if (from == DType::f32) {
    of(kernels, to).from_f32(n, static_cast<const float*>(x), y);
  } else {
    constexpr int64_t kPart = 256;
    float wide[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      const int64_t count = std::min(kPart, n - i);
      of(kernels, from).to_f32(count, at(x, i, from), wide);
      of(kernels, to).from_f32(count, wide, at(y, i, to));
    }
  }
}

}  // namespace lathe::cpu
