#pragma once
// What the methods of Rows share: dealing rows to threads, sums over rows, and kernels and addresses by
// storage.
#include <algorithm>
#include <cstring>
#include <initializer_list>

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

/// Sums over rows are cut into at most kMaxBlocks blocks, each of at least kMinBlockRows rows.
inline constexpr int64_t kMaxBlocks = 64, kMinBlockRows = 16;
/// One thread adds up the blocks' sums of this many columns: a cache line.
inline constexpr int64_t kSumsOfALine = 16;

inline int64_t row_blocks(int64_t rows) {
  return std::clamp<int64_t>((rows + kMinBlockRows - 1) / kMinBlockRows, 1, kMaxBlocks);
}
/// This many consecutive blocks are summed by the thread that made them, because its caches hold them.  It is
/// a power of two, so that any number of threads adds the same tree.
inline int64_t blocks_of_group(int64_t blocks, int threads) {
  int64_t group = 1;
  while (2 * group * kRangesOfAThread * threads <= blocks) group *= 2;
  return group;
}

/// Sums over rows of [rows, cols]: those of each block [blocks, cols], and of all [cols].
struct BlockSums {
  float *partial, *out;
};
/// f(block, first row, last row) leaves a block's sums in `partial`; then they are added up.
template <typename F>
void sum_rows(ThreadPool& pool, const RowKernels& kernels, Rows::Size s,
              std::initializer_list<BlockSums> sums, F f) {
  const int64_t blocks = row_blocks(s.rows), group = blocks_of_group(blocks, pool.size());
  const int64_t groups = ceil_div(blocks, group);
  for_shares(pool, groups, s.rows * s.cols / groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin * group; first < std::min(blocks, end * group); first += group) {
      const int64_t count = std::min(group, blocks - first);
      for (int64_t b = first; b < first + count; ++b) f(b, s.rows * b / blocks, s.rows * (b + 1) / blocks);
      for (const BlockSums& sum : sums) {
        float* const partial = sum.partial + first * s.cols;
        kernels.sum_blocks(0, s.cols, s.cols, 1, count, partial, partial);
      }
    }
  });
  for_shares(pool, s.cols, blocks, kSumsOfALine, [&](int64_t begin, int64_t end) {
    for (const BlockSums& sum : sums)
      kernels.sum_blocks(begin, end, s.cols, group, blocks, sum.partial, sum.out);
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
