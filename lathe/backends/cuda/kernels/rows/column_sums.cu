#include <algorithm>

#include "lathe/backends/cuda/kernels/rows/column_sums.cuh"
#include "lathe/backends/cuda/kernels/rows/column_sums.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

/// A block: a warp along the columns, a vector of them per lane, and kRowThreads of these along the rows.
constexpr int kRowThreads = 8, kThreads = kWarp * kRowThreads;
/// Rows that a thread loads at once, of which each takes `bytes`.
constexpr int rows_at_once(size_t bytes) { return bytes >= 64 ? 1 : bytes >= 32 ? 2 : 4; }
/// Blocks that are resident at once on a multiprocessor.
constexpr int kResident = 4;
constexpr int64_t kBlocks = 132 * kResident;

/// Sums of part blockIdx.y, `part_rows` rows, to partial[blockIdx.y][cols].
template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads, kResident)
    partial_sums_kernel(int64_t rows, int64_t cols, int64_t part_rows, const T* x, float* partial) {
  follow();
  using Raw = Vec<T, kWidth>;
  constexpr int kRowsAtOnce = rows_at_once(sizeof(Raw));
  const int64_t first_col = int64_t{kWarp} * kWidth * blockIdx.x, col = first_col + threadIdx.x * kWidth;
  const int64_t begin = part_rows * blockIdx.y, end = min(rows, begin + part_rows);
  float sum[kWidth] = {};
  for (int64_t first = begin + threadIdx.y; first < end && col < cols; first += kRowsAtOnce * kRowThreads) {
    Raw raw[kRowsAtOnce];
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k)
      if (first + k * kRowThreads < end)
        raw[k] = load_vec<kWidth>(x + (first + k * kRowThreads) * cols + col);
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (first + k * kRowThreads >= end) break;
      float term[kWidth];
      to_floats(raw[k], term);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += term[j];
    }
  }
  constexpr int kPitch = kWarp + 4;  // so that neighbouring columns lie in different banks
  __shared__ float sums[kRowThreads][kWidth][kPitch];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) sums[threadIdx.y][j][threadIdx.x] = sum[j];
  __syncthreads();
  const int c = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  if (c >= kWarp * kWidth || first_col + c >= cols) return;
  float total = 0;
#pragma unroll
  for (int k = 0; k < kRowThreads; ++k) total += sums[k][c % kWidth][c / kWidth];
  partial[cols * blockIdx.y + first_col + c] = total;
}

/// How the rows are parted: all blocks are resident at once.
struct Parts {
  int64_t rows, count;

  Parts(int64_t all_rows, int64_t cols, int64_t width) {
    const int64_t most = std::max<int64_t>(kBlocks / ceil_div(cols, kWarp * width), 1);
    rows = std::max<int64_t>(ceil_div(ceil_div(all_rows, most), kRowThreads), 1) * kRowThreads;
    count = std::max<int64_t>(ceil_div(all_rows, rows), 1);
  }
};

}  // namespace

void column_sums(cudaStream_t stream, DType t, int64_t rows, int64_t cols, const void* x, float* sums,
                 void* workspace) {
  if (cols == 0) return;
  const bool vectors = cols % 8 == 0 && aligned16(x);
  const int64_t width = vectors ? 8 : 1;
  const Parts parts(rows, cols, width);
  float* partial = parts.count == 1 ? sums : static_cast<float*>(workspace);
  const dim3 grid(static_cast<unsigned>(ceil_div(cols, kWarp * width)), static_cast<unsigned>(parts.count));
  const dim3 threads(kWarp, kRowThreads);
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = static_cast<const T*>(x);
    if (vectors)
      partial_sums_kernel<8><<<grid, threads, 0, stream>>>(rows, cols, parts.rows, from, partial);
    else
      partial_sums_kernel<1><<<grid, threads, 0, stream>>>(rows, cols, parts.rows, from, partial);
  });
  if (parts.count > 1) finish_sums(stream, parts.count, partial, {cols, sums});
}

size_t column_sums_workspace_bytes(int64_t rows, int64_t cols) {
  const int64_t parts = std::max(Parts(rows, cols, 8).count, Parts(rows, cols, 1).count);
  return static_cast<size_t>(parts * cols) * sizeof(float);
}

}  // namespace lathe::cuda
