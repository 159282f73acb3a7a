// The mean over the tokens of each row, and its derivative.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/rows.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;

/// One thread per column, one block line per row: sums in the order of the tokens.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_mean_kernel(int64_t cols, const int32_t* cu, const T* x, T* y) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  const int64_t begin = cu[row], end = cu[row + 1];
  float sum = 0;
  for (int64_t n = begin; n < end; ++n) sum += to_float(x[n * cols + col]);
  y[row * cols + col] = from_float<T>(end > begin ? sum / static_cast<float>(end - begin) : 0.f);
}

/// Row `rows` stands for the tokens that belong to none.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    segment_mean_bwd_kernel(int64_t rows, int64_t cols, int64_t tokens, const int32_t* cu, const T* dy,
                            T* dx) {
  follow();
  const int64_t col = int64_t{kThreads} * blockIdx.y + threadIdx.x, row = blockIdx.x;
  if (col >= cols) return;
  const int64_t begin = cu[row], end = row < rows ? cu[row + 1] : tokens;
  if (begin == end) return;
  const float share = row < rows ? to_float(dy[row * cols + col]) / static_cast<float>(end - begin) : 0.f;
  for (int64_t n = begin; n < end; ++n) dx[n * cols + col] = from_float<T>(share);
}

dim3 grid_of(int64_t rows, int64_t cols) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(cols, kThreads))};
}

}  // namespace

void segment_mean(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const void* x, void* y) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_mean_kernel<<<grid_of(s.rows, s.cols), kThreads, 0, stream>>>(
        s.cols, cu, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void segment_mean_bwd(cudaStream_t stream, DType t, RowsSize s, const int32_t* cu, const void* dy,
                      int64_t tokens, void* dx) {
  if (s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    segment_mean_bwd_kernel<<<grid_of(s.rows + 1, s.cols), kThreads, 0, stream>>>(
        s.rows, s.cols, tokens, cu, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace lathe::cuda
