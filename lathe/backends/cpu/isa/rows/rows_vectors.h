// Rows beside a few vectors of f32: their products, and sums of either.  Blocks of so many of each share
// their loads; what an element is does not depend on the block that it falls into.
#pragma once
#include <type_traits>

#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

constexpr int kVectors = 4, kParts = 2, kRows = kLanes == 16 ? 4 : 2, kFewRows = 4;

/// f(first, how many) on [0, n), kMost at a time, the rest one by one; how many as a constant.
template <int kMost, typename F>
inline void for_blocks_of(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kMost <= n; i += kMost) f(i, std::integral_constant<int, kMost>{});
  for (; i < n; ++i) f(i, std::integral_constant<int, 1>{});
}

/// The same on vectors of registers of [0, cols): f(first element, how many, width).
template <typename F>
inline void for_column_blocks(int64_t cols, F f) {
  int64_t c = 0;
  for (; c + kParts * kLanes <= cols; c += kParts * kLanes)
    f(c, std::integral_constant<int, kParts>{}, Whole{});
  for (; c + kLanes <= cols; c += kLanes) f(c, std::integral_constant<int, 1>{}, Whole{});
  if (c < cols) f(c, std::integral_constant<int, 1>{}, First{static_cast<int>(cols - c)});
}

template <typename T>
void dots(int64_t vectors, int64_t rows, int64_t cols, int64_t ld, const float* v, const void* xs,
          float* weights, int64_t weights_ld) {
  for_blocks_of<kRows>(rows, [&](int64_t row, auto row_count) {
    constexpr int kR = decltype(row_count)::value;
    const T* x = static_cast<const T*>(xs) + row * ld;
    for_blocks_of<kVectors>(vectors, [&](int64_t first, auto vector_count) {
      constexpr int kV = decltype(vector_count)::value;
      Floats sum[kV][kR] = {};
      for_vectors(cols, [&](int64_t c, auto w) {
        Floats value[kR];
        for (int r = 0; r < kR; ++r) value[r] = load(x + r * ld + c, w);
        for (int i = 0; i < kV; ++i) {
          const Floats of_vector = load(v + (first + i) * cols + c, w);
          for (int r = 0; r < kR; ++r) sum[i][r] += of_vector * value[r];
        }
      });
      for (int i = 0; i < kV; ++i)
        for (int r = 0; r < kR; ++r)
          weights[(first + i) * weights_ld + row + r] = tree<kLanes / 2>(sum[i][r]);
    });
  });
}

template <typename T>
void weighted_sums(int64_t vectors, int64_t rows, int64_t cols, int64_t ld, const float* weights,
                   int64_t weights_ld, const void* xs, float* sums) {
  const T* x = static_cast<const T*>(xs);
  for_column_blocks(cols, [&](int64_t c, auto parts, auto w) {
    constexpr int kP = decltype(parts)::value;
    for_blocks_of<kVectors>(vectors, [&](int64_t first, auto vector_count) {
      constexpr int kV = decltype(vector_count)::value;
      Floats sum[kV][kP] = {};
      for (int64_t row = 0; row < rows; ++row) {
        Floats value[kP];
        for (int p = 0; p < kP; ++p) value[p] = load(x + row * ld + c + p * kLanes, w);
        for (int i = 0; i < kV; ++i) {
          const Floats weight = all(weights[(first + i) * weights_ld + row]);
          for (int p = 0; p < kP; ++p) sum[i][p] += weight * value[p];
        }
      }
      for (int i = 0; i < kV; ++i)
        for (int p = 0; p < kP; ++p) store(sums + (first + i) * cols + c + p * kLanes, sum[i][p], w);
    });
  });
}

template <typename T>
void weighted_vectors(int64_t vectors, int64_t rows, int64_t cols, int64_t ld, const float* weights,
                      int64_t weights_ld, const float* v, void* ys) {
  for_blocks_of<kFewRows>(rows, [&](int64_t row, auto row_count) {
    constexpr int kR = decltype(row_count)::value;
    T* y = static_cast<T*>(ys) + row * ld;
    for_column_blocks(cols, [&](int64_t c, auto parts, auto w) {
      constexpr int kP = decltype(parts)::value;
      Floats sum[kR][kP] = {};
      for (int64_t i = 0; i < vectors; ++i) {
        Floats value[kP];
        for (int p = 0; p < kP; ++p) value[p] = load(v + i * cols + c + p * kLanes, w);
        for (int r = 0; r < kR; ++r) {
          const Floats weight = all(weights[i * weights_ld + row + r]);
          for (int p = 0; p < kP; ++p) sum[r][p] += weight * value[p];
        }
      }
      for (int r = 0; r < kR; ++r)
        for (int p = 0; p < kP; ++p) store(y + r * ld + c + p * kLanes, sum[r][p], w);
    });
  });
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
