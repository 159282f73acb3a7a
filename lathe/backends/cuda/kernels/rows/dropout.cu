// Dropout, plain or with a residual.
#include "lathe/backends/cuda/kernels/rows/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlockRows = kThreads / kWarp;
/// Vectors that a lane loads at once.
constexpr int kVectors = 4;

/// One warp per row.
template <int kWidth, bool kResidual, typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(int64_t rows, int64_t cols, DropoutSite site, const T* x, const T* residual, Out* y) {
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

template <bool kResidual, typename T, typename Out>
void launch(cudaStream_t stream, RowsSize s, const DropoutSite& site, const T* x, const T* residual, Out* y) {
  if (s.rows == 0 || s.cols == 0) return;
  const bool vectors = s.cols % 8 == 0 && aligned16(x, residual, static_cast<const Out*>(y));
  const auto kernel = vectors ? dropout_kernel<8, kResidual, T, Out> : dropout_kernel<1, kResidual, T, Out>;
  kernel<<<static_cast<unsigned>(ceil_div(s.rows, kBlockRows)), kThreads, 0, stream>>>(s.rows, s.cols, site,
                                                                                       x, residual, y);
}

}  // namespace

void dropout(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule, const int32_t* sample_ids,
             const int32_t* positions, const void* x, const void* residual, void* y) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const DropoutSite site{rule, sample_ids, positions};
    const T *in = static_cast<const T*>(x), *more = static_cast<const T*>(residual);
    if (more != nullptr)
      launch<true>(stream, s, site, in, more, static_cast<T*>(y));
    else
      launch<false>(stream, s, site, in, more, static_cast<T*>(y));
  });
}

void dropout_cast(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                  const int32_t* sample_ids, const int32_t* positions, const void* x, float* y) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch<false, T>(stream, s, {rule, sample_ids, positions}, static_cast<const T*>(x), nullptr, y);
  });
}

}  // namespace lathe::cuda
