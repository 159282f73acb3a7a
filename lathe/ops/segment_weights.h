#pragma once
// Plain declarations only: kernels of GPUs include this header, too.
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LT_ON_DEVICE __host__ __device__
#else
#define LT_ON_DEVICE
#endif

namespace lathe {

/// How op::segment_sum weighs the tokens of a row that count: 1 / n; 1 / √n; each by its place in the row,
/// from 1, by their sum.
enum class SegmentWeights : int { kMean, kSqrt, kPlace };

/// A token's weight: base + slope · place.
struct PlaceWeight {
  float base, slope;
};

/// Of a row of the tokens begin … end−1 of which those from `first` on count; 0 where there is none.
LT_ON_DEVICE inline PlaceWeight weight_of_places(SegmentWeights weights, int64_t begin, int64_t first,
                                                 int64_t end) {
  if (first >= end) return {0, 0};
  const auto n = static_cast<float>(end - first);
  if (weights == SegmentWeights::kMean) return {1 / n, 0};
  if (weights == SegmentWeights::kSqrt) return {1 / sqrtf(n), 0};
  return {0, 2 / (n * static_cast<float>(end + first - 2 * begin + 1))};
}

}  // namespace lathe
#undef LT_ON_DEVICE
