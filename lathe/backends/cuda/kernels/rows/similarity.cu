// How alike the vectors of two texts are, and what is learnt from that.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/similarity.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;

/// One warp per row.
__global__ void __launch_bounds__(kThreads)
    row_scores_kernel(int64_t rows, int64_t cols, Comparison how, const float* a, const float* b, float* s) {
  follow();
  const int64_t row = (int64_t{kThreads} * blockIdx.x + threadIdx.x) / kWarp;
  if (row >= rows) return;
  float sum = 0;
  for (int64_t c = row * cols + threadIdx.x % kWarp; c < (row + 1) * cols; c += kWarp) {
    const float d = a[c] - b[c] + how.shift;
    sum += how.kind == 0 || how.kind == 3 ? a[c] * b[c] : how.kind == 1 ? d * d : fabsf(d);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) s[row] = how.kind == 1 ? sqrtf(sum) : how.kind == 3 ? 1 - sum : sum;
}

__global__ void __launch_bounds__(kThreads)
    row_scores_bwd_kernel(int64_t count, int64_t cols, Comparison how, const float* ds, const float* a,
                          const float* b, const float* s, float* da, float* db) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i >= count) return;
  const float of_row = ds[i / cols], score = s[i / cols], d = a[i] - b[i] + how.shift;
  if (how.kind == 0 || how.kind == 3) {
    const float factor = how.kind == 0 ? of_row : -of_row;
    da[i] = factor * b[i], db[i] = factor * a[i];
    return;
  }
  const float sign = static_cast<float>((d > 0) - (d < 0));
  const float slope = how.kind == 2 ? sign : score == 0 ? 0.f : d / score;
  da[i] = of_row * slope, db[i] = -of_row * slope;
}

/// What the pairs of one score make: the largest exponent in which it is the lower one, the sum of these
/// exponentials less that exponent, and likewise of those in which it is the higher one.
struct PairSums {
  float lower_most, lower, higher_most, higher;
};

/// One warp per score.
__global__ void __launch_bounds__(kThreads)
    cosent_sums_kernel(int64_t n, float factor, const float* scores, const int32_t* ranks, PairSums* sums) {
  follow();
  const int64_t i = (int64_t{kThreads} * blockIdx.x + threadIdx.x) / kWarp;
  if (i >= n) return;
  const int lane = threadIdx.x % kWarp;
  const float own = scores[i];
  const int32_t rank = ranks[i];
  float lower_most = -INFINITY, higher_most = -INFINITY;
  for (int64_t j = lane; j < n; j += kWarp) {
    const float x = factor * (own - scores[j]);
    if (rank < ranks[j]) lower_most = fmaxf(lower_most, x);
    if (rank > ranks[j]) higher_most = fmaxf(higher_most, -x);
  }
  lower_most = warp_max(lower_most), higher_most = warp_max(higher_most);
  float lower = 0, higher = 0;
  for (int64_t j = lane; j < n; j += kWarp) {
    const float x = factor * (own - scores[j]);
    if (rank < ranks[j]) lower += expf(x - lower_most);
    if (rank > ranks[j]) higher += expf(-x - higher_most);
  }
  lower = warp_sum(lower), higher = warp_sum(higher);
  if (lane == 0) sums[i] = {lower_most, lower, higher_most, higher};
}

/// One warp.
__global__ void __launch_bounds__(kWarp)
    cosent_kernel(int64_t n, float factor, const PairSums* sums, float* loss, float* dscores) {
  follow();
  float largest = 0;
  for (int64_t i = threadIdx.x; i < n; i += kWarp) largest = fmaxf(largest, sums[i].lower_most);
  largest = warp_max(largest);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kWarp)
    if (sums[i].lower > 0) sum += sums[i].lower * expf(sums[i].lower_most - largest);
  sum = warp_sum(sum) + expf(-largest);
  for (int64_t i = threadIdx.x; i < n; i += kWarp) {
    const PairSums own = sums[i];
    const float lower = own.lower > 0 ? own.lower * expf(own.lower_most - largest) : 0.f;
    const float higher = own.higher > 0 ? own.higher * expf(own.higher_most - largest) : 0.f;
    dscores[i] = factor * (lower - higher) / sum;
  }
  if (threadIdx.x == 0) *loss = largest + logf(sum);
}

/// One warp.
__global__ void __launch_bounds__(kWarp)
    pair_loss_kernel(int64_t n, bool triplets, float margin, const float* scores, const float* other,
                     float* loss, float* dscores, float* dother) {
  follow();
  const float share = 1 / static_cast<float>(n);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kWarp) {
    const float s = scores[i], o = other[i];
    if (triplets) {
      const float over = fmaxf(0.f, s - o + margin);
      sum += over, dscores[i] = over > 0 ? share : 0.f, dother[i] = over > 0 ? -share : 0.f;
    } else {
      const float near = fmaxf(0.f, margin - s);
      sum += (o * s * s + (1 - o) * near * near) / 2;
      dscores[i] = (o * s - (1 - o) * near) * share;
      dother[i] = (s * s - near * near) / 2 * share;
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x == 0) *loss = sum * share;
}

__global__ void __launch_bounds__(kThreads)
    times_kernel(int64_t n, const float* x, const float* factor, float* y) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i < n) y[i] = *factor * x[i];
}

__global__ void __launch_bounds__(kThreads)
    first_columns_kernel(int64_t count, int64_t from, int64_t to, const float* x, float* y) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i < count) y[i] = i % to < from ? x[i / to * from + i % to] : 0.f;
}

unsigned blocks(int64_t threads) { return static_cast<unsigned>(ceil_div(threads, kThreads)); }

}  // namespace

void row_scores(cudaStream_t stream, RowsSize size, Comparison how, const float* a, const float* b,
                float* s) {
  if (size.rows > 0)
    row_scores_kernel<<<blocks(size.rows * kWarp), kThreads, 0, stream>>>(size.rows, size.cols, how, a, b, s);
}

void row_scores_bwd(cudaStream_t stream, RowsSize size, Comparison how, const float* ds, const float* a,
                    const float* b, const float* s, float* da, float* db) {
  const int64_t count = size.rows * size.cols;
  if (count > 0)
    row_scores_bwd_kernel<<<blocks(count), kThreads, 0, stream>>>(count, size.cols, how, ds, a, b, s, da, db);
}

size_t cosent_workspace_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(PairSums); }

void cosent(cudaStream_t stream, int64_t n, float factor, const float* scores, const int32_t* ranks,
            float* loss, float* dscores, void* workspace) {
  PairSums* sums = static_cast<PairSums*>(workspace);
  if (n > 0) cosent_sums_kernel<<<blocks(n * kWarp), kThreads, 0, stream>>>(n, factor, scores, ranks, sums);
  cosent_kernel<<<1, kWarp, 0, stream>>>(n, factor, sums, loss, dscores);
}

void pair_loss(cudaStream_t stream, int64_t n, bool triplets, float margin, const float* scores,
               const float* other, float* loss, float* dscores, float* dother) {
  pair_loss_kernel<<<1, kWarp, 0, stream>>>(n, triplets, margin, scores, other, loss, dscores, dother);
}

void times(cudaStream_t stream, int64_t n, const float* x, const float* factor, float* y) {
  if (n > 0) times_kernel<<<blocks(n), kThreads, 0, stream>>>(n, x, factor, y);
}

void first_columns(cudaStream_t stream, RowsSize size, int64_t to, const float* x, float* y) {
  const int64_t count = size.rows * to;
  if (count > 0) first_columns_kernel<<<blocks(count), kThreads, 0, stream>>>(count, size.cols, to, x, y);
}

}  // namespace lathe::cuda
