// Dropout, alone or with a residual.
#include "lathe/backends/cuda/kernels/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlockRows = kThreads / kWarp;
/// Vectors that a lane loads at once.
constexpr int kVectors = 4;

/// One warp per row.
template <int kWidth, bool kResidual, typename T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(int64_t rows, int64_t cols, DropoutSite site, const T* x, const T* residual, T* y) {
  follow();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{kBlockRows} * blockIdx.x + threadIdx.x / kWarp, at = r * cols;
  if (r >= rows) return;
  const DropoutRow row = site.row(r);
  for (int64_t first = lane * kWidth; first < cols; first += kVectors * kWarp * kWidth) {
    Vec<T, kWidth> raw[kVectors], more[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t col = first + v * kWarp * kWidth;
      if (col >= cols) continue;
      raw[v] = load_vec<kWidth>(x + at + col);
      if constexpr (kResidual) more[v] = load_vec<kWidth>(residual + at + col);
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t col = first + v * kWarp * kWidth;
      if (col >= cols) continue;
      float value[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value[j] = to_float(raw[v].at[j]);
      row.apply(col, value);
      if constexpr (kResidual) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) value[j] += to_float(more[v].at[j]);
      }
      store_vec(y + at + col, value);
    }
  }
}

}  // namespace

void dropout(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule, const int32_t* sample_ids,
             const int32_t* positions, const void* x, const void* residual, void* y) {
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(ceil_div(s.rows, kBlockRows)), kThreads, 0, stream>>>(
          s.rows, s.cols, DropoutSite{rule, sample_ids, positions}, static_cast<const T*>(x),
          static_cast<const T*>(residual), static_cast<T*>(y));
    };
    const bool vectors = s.cols % 8 == 0 && aligned16(x, residual, static_cast<const void*>(y));
    if (residual != nullptr)
      vectors ? launch(dropout_kernel<8, true, T>) : launch(dropout_kernel<1, true, T>);
    else
      vectors ? launch(dropout_kernel<8, false, T>) : launch(dropout_kernel<1, false, T>);
  });
}

}  // namespace lathe::cuda
