// What makes one vector of the vectors of a text's tokens: weighted sums, maxima, unit length.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/pooling.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;

__device__ inline float weight_at(const PlaceWeight& of_row, int64_t place) {
  return of_row.base + of_row.slope * static_cast<float>(place);
}

/// One thread per column, one block line per row: sums in the order of the tokens.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_sum_kernel(int64_t cols, Segments rows, SegmentWeights weights, const T* x, T* y) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  const int64_t begin = rows.cu[row], first = rows.first[row], end = rows.cu[row + 1];
  const PlaceWeight of_row = weight_of_places(weights, begin, first, end);
  float sum = 0;
  for (int64_t n = first; n < end; ++n) sum += weight_at(of_row, n - begin + 1) * to_float(x[n * cols + col]);
  y[row * cols + col] = from_float<T>(sum);
}

/// Row `count` stands for the tokens that belong to none.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_sum_bwd_kernel(int64_t count, int64_t cols, int64_t tokens, Segments rows, SegmentWeights weights,
                           const T* dy, T* dx) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  const int64_t begin = rows.cu[row], end = row < count ? rows.cu[row + 1] : tokens;
  const int64_t first = row < count ? rows.first[row] : tokens;
  const PlaceWeight of_row = weight_of_places(weights, begin, first, end);
  const float of_dy = row < count ? to_float(dy[row * cols + col]) : 0.f;
  for (int64_t n = begin; n < end; ++n)
    dx[n * cols + col] = from_float<T>(n < first ? 0.f : weight_at(of_row, n - begin + 1) * of_dy);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_max_kernel(int64_t cols, Segments rows, const T* x, T* y, int32_t* at) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  float best = 0;
  int32_t place = -1;
  for (int32_t n = rows.first[row]; n < rows.cu[row + 1]; ++n) {
    const float value = to_float(x[int64_t{n} * cols + col]);
    if (place < 0 || value > best || (isnan(value) && !isnan(best))) best = value, place = n;
  }
  y[row * cols + col] = from_float<T>(best);
  at[row * cols + col] = place;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_max_bwd_kernel(int64_t rows, int64_t cols, int64_t tokens, const int32_t* cu, const int32_t* at,
                           const T* dy, T* dx) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  const int64_t end = row < rows ? cu[row + 1] : tokens;
  const int64_t place = row < rows ? at[row * cols + col] : -1;
  for (int64_t n = cu[row]; n < end; ++n)
    dx[n * cols + col] = n == place ? dy[row * cols + col] : from_float<T>(0.f);
}

/// One warp per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    l2_normalize_kernel(int64_t rows, int64_t cols, float eps, const T* x, T* y, float* norm) {
  follow();
  const int64_t row = (int64_t{kThreads} * blockIdx.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  float squares = 0;
  for (int64_t c = lane; c < cols; c += kWarp) {
    const float value = to_float(x[row * cols + c]);
    squares += value * value;
  }
  const float length = sqrtf(warp_sum(squares)), divisor = fmaxf(length, eps);
  for (int64_t c = lane; c < cols; c += kWarp)
    y[row * cols + c] = from_float<T>(to_float(x[row * cols + c]) / divisor);
  if (lane == 0) norm[row] = length;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    l2_normalize_bwd_kernel(int64_t rows, int64_t cols, float eps, const T* dy, const T* y, const float* norm,
                            T* dx) {
  follow();
  const int64_t row = (int64_t{kThreads} * blockIdx.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  float along = 0;
  for (int64_t c = lane; c < cols; c += kWarp)
    along += to_float(dy[row * cols + c]) * to_float(y[row * cols + c]);
  along = norm[row] > eps ? warp_sum(along) : 0.f;
  const float divisor = fmaxf(norm[row], eps);
  for (int64_t c = lane; c < cols; c += kWarp)
    dx[row * cols + c] =
        from_float<T>((to_float(dy[row * cols + c]) - along * to_float(y[row * cols + c])) / divisor);
}

dim3 grid_of(int64_t rows, int64_t cols) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(cols, kThreads))};
}
unsigned warps_of(int64_t rows) { return static_cast<unsigned>(ceil_div(rows * kWarp, kThreads)); }

}  // namespace

void segment_sum(cudaStream_t stream, DType t, RowsSize s, Segments rows, SegmentWeights weights,
                 const void* x, void* y) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_sum_kernel<<<grid_of(s.rows, s.cols), kThreads, 0, stream>>>(
        s.cols, rows, weights, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void segment_sum_bwd(cudaStream_t stream, DType t, RowsSize s, Segments rows, SegmentWeights weights,
                     const void* dy, int64_t tokens, void* dx) {
  if (s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_sum_bwd_kernel<<<grid_of(s.rows + 1, s.cols), kThreads, 0, stream>>>(
        s.rows, s.cols, tokens, rows, weights, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void segment_max(cudaStream_t stream, DType t, RowsSize s, Segments rows, const void* x, void* y,
                 int32_t* at) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_max_kernel<<<grid_of(s.rows, s.cols), kThreads, 0, stream>>>(
        s.cols, rows, static_cast<const T*>(x), static_cast<T*>(y), at);
  });
}

void segment_max_bwd(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const int32_t* at,
                     const void* dy, int64_t tokens, void* dx) {
  if (s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_max_bwd_kernel<<<grid_of(s.rows + 1, s.cols), kThreads, 0, stream>>>(
        s.rows, s.cols, tokens, cu, at, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void l2_normalize(cudaStream_t stream, DType t, RowsSize s, float eps, const void* x, void* y, float* norm) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    l2_normalize_kernel<<<warps_of(s.rows), kThreads, 0, stream>>>(
        s.rows, s.cols, eps, static_cast<const T*>(x), static_cast<T*>(y), norm);
  });
}

void l2_normalize_bwd(cudaStream_t stream, DType t, RowsSize s, float eps, const void* dy, const void* y,
                      const float* norm, void* dx) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    l2_normalize_bwd_kernel<<<warps_of(s.rows), kThreads, 0, stream>>>(
        s.rows, s.cols, eps, static_cast<const T*>(dy), static_cast<const T*>(y), norm, static_cast<T*>(dx));
  });
}

}  // namespace lathe::cuda
