// The derivatives of layer normalisation.  With x̂ = (x − mean) · rstd, g = dy · gamma and ⟨⟩ the mean over a
// row: dx = rstd · (g − ⟨g⟩ − x̂ ⟨g x̂⟩), dgamma = Σ dy x̂ and dbeta = Σ dy over the rows.
#include <algorithm>

#include "lathe/backends/cuda/kernels/column_sums.cuh"
#include "lathe/backends/cuda/kernels/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kBlockRows = kThreads / kWarp;
/// Columns of one vector per lane, and the most vectors of a row.
constexpr int64_t kVectorCols = 8 * kWarp, kMostVectors = 4;
/// Groups of kVectors warps in a block that keeps sums of columns; one such block on each multiprocessor.
template <int kVectors>
constexpr int kGroups = 24 / kVectors;
constexpr int64_t kMultiprocessors = 132;
/// Pieces of the rows where columns are summed apart from dx.
constexpr int64_t kMostPieces = 64;

int64_t block_count(RowsSize s) {
  return std::clamp<int64_t>(ceil_div(s.rows, kBlockRows), 1, kMultiprocessors);
}

template <typename T>
struct Backward {
  int64_t rows, cols;
  const T *dy, *x;
  const float *gamma, *mean, *rstd;
  T* dx;
  T* dd;             ///< of a kernel with dropout
  DropoutSite site;  ///< the same
  float* partial;    ///< [blocks][2][cols]: dgamma and dbeta of each block's rows
};

/// Stores dx of kWidth columns, and dropout of what was stored.
template <bool kDropout, int kWidth, typename T>
__device__ inline void store_gradient(const Backward<T>& b, int64_t at, int64_t col,
                                      const DropoutRow& dropout, float (&dx)[kWidth]) {
  const Vec<T, kWidth> stored = round_vec<T>(dx);
  store_vec(b.dx + at + col, stored);
  if constexpr (kDropout) {
    to_floats(stored, dx);
    dropout.apply(col, dx);
    store_vec(b.dd + at + col, dx);
  }
}

/// Waits for the warps of a group of kVectors; `group` counts from 0.
template <int kVectors>
__device__ inline void meet(int group) {
  if constexpr (kVectors > 1)
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kVectors * kWarp) : "memory");
  else
    __syncwarp();
}

/// A group of kVectors warps per row, a vector per lane, so that a lane keeps the sums of eight columns. cols
/// is a multiple of 8 and at most 256 kVectors; columns beyond are zeros.  The next rows are under way while
/// a group adds up its warps' parts of a row.
template <int kVectors, bool kDropout, typename T>
__global__ void __launch_bounds__(kVectors* kGroups<kVectors>* kWarp, 1) held_kernel(Backward<T> b) {
  follow();
  constexpr int kGroupCount = kGroups<kVectors>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int group = warp / kVectors, part = warp % kVectors;
  const int cols = static_cast<int>(b.cols), col = 8 * (lane + kWarp * part);
  const bool inside = col < cols;
  const float share = 1.f / static_cast<float>(cols);
  const Vec<float, 8> gamma = inside ? load_vec<8>(b.gamma + col) : Vec<float, 8>{};
  float dgamma[8] = {}, dbeta[8] = {};
  __shared__ float2 parts[2][kGroupCount][kVectors];  // of a row's sums; two sets, so that one wait is enough

  struct Loaded {
    Vec<T, 8> dy, x;
    float mean, rstd;
    uint32_t sample, position;
  };
  DropoutRow dropout{};
  if constexpr (kDropout) dropout = b.site.any_row();
  const auto load = [&](int64_t r) {
    Loaded l = {};
    if (r >= b.rows) return l;
    l.mean = b.mean[r], l.rstd = b.rstd[r];
    if (inside) l.dy = load_vec<8>(b.dy + r * cols + col), l.x = load_vec<8>(b.x + r * cols + col);
    if constexpr (kDropout) l.sample = b.site.sample(r), l.position = b.site.position(r);
    return l;
  };
  const int64_t stride = int64_t{kGroupCount} * gridDim.x;
  int64_t r = int64_t{kGroupCount} * blockIdx.x + group;
  Loaded next = load(r);
  for (int set = 0; r < b.rows; r += stride, set ^= 1) {
    const Loaded now = next;
    float g[8], hat[8], sum = 0, skew = 0;
    to_floats(now.dy, g);
    to_floats(now.x, hat);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      hat[j] = (hat[j] - now.mean) * now.rstd;
      dgamma[j] += g[j] * hat[j];
      dbeta[j] += g[j];
      g[j] *= gamma.at[j];
      sum += g[j];
      skew += g[j] * hat[j];
    }
    sum = warp_sum(sum);
    skew = warp_sum(skew);
    if (lane == 0) parts[set][group][part] = {sum, skew};
    next = load(r + stride);
    meet<kVectors>(group);
    sum = skew = 0;
#pragma unroll
    for (int p = 0; p < kVectors; ++p) sum += parts[set][group][p].x, skew += parts[set][group][p].y;
    sum *= share, skew *= share;
#pragma unroll
    for (int j = 0; j < 8; ++j) g[j] = now.rstd * (g[j] - sum - hat[j] * skew);
    dropout.sample = now.sample, dropout.position = now.position;
    if (inside) store_gradient<kDropout>(b, r * cols, col, dropout, g);
  }

  // the groups' sums of the columns, added up in their order, are this block's
  __shared__ float sums[2][kVectors * kVectorCols];
  for (int turn = 0; turn < kGroupCount; ++turn) {
    if (group == turn) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int at = (8 * part + j) * kWarp + lane;  // neighbouring lanes, neighbouring banks
        sums[0][at] = turn == 0 ? dgamma[j] : sums[0][at] + dgamma[j];
        sums[1][at] = turn == 0 ? dbeta[j] : sums[1][at] + dbeta[j];
      }
    }
    __syncthreads();
  }
  float* to = b.partial + 2 * b.cols * blockIdx.x;
  for (int c = static_cast<int>(threadIdx.x); c < cols; c += static_cast<int>(blockDim.x)) {
    const int at = (c / 256 * 8 + c % 8) * kWarp + c / 8 % kWarp;
    to[c] = sums[0][at];
    to[cols + c] = sums[1][at];
  }
}

/// dx alone, of any number of columns; the row is read twice.  dx may be dy: a lane reads its columns before
/// it writes them.
template <int kWidth, bool kDropout, typename T>
__global__ void __launch_bounds__(kThreads) reread_kernel(Backward<T> b) {
  follow();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{kBlockRows} * blockIdx.x + threadIdx.x / kWarp, at = r * b.cols;
  if (r >= b.rows) return;
  const float mean = b.mean[r], rstd = b.rstd[r];
  const auto for_columns = [&](auto f) {  // f(col, g, x̂)
#pragma unroll 1
    for (int64_t col = lane * kWidth; col < b.cols; col += kWarp * kWidth) {
      const Vec<T, kWidth> dy = load_vec<kWidth>(b.dy + at + col), x = load_vec<kWidth>(b.x + at + col);
      const Vec<float, kWidth> gamma = load_vec<kWidth>(b.gamma + col);
      float g[kWidth], hat[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        g[j] = to_float(dy.at[j]) * gamma.at[j];
        hat[j] = (to_float(x.at[j]) - mean) * rstd;
      }
      f(col, g, hat);
    }
  };
  float sum = 0, skew = 0;
  for_columns([&](int64_t, const float(&g)[kWidth], const float(&hat)[kWidth]) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum += g[j], skew += g[j] * hat[j];
  });
  sum = warp_sum(sum) / static_cast<float>(b.cols);
  skew = warp_sum(skew) / static_cast<float>(b.cols);
  DropoutRow dropout{};
  if constexpr (kDropout) dropout = b.site.row(r);
  for_columns([&](int64_t col, float(&g)[kWidth], const float(&hat)[kWidth]) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) g[j] = rstd * (g[j] - sum - hat[j] * skew);
    store_gradient<kDropout>(b, at, col, dropout, g);
  });
}

/// dgamma and dbeta of one piece of the rows and 32 columns.
constexpr int kColumnThreads = 8;  // along the rows
template <typename T>
__global__ void __launch_bounds__(kWarp* kColumnThreads) columns_kernel(Backward<T> b) {
  follow();
  const int64_t col = int64_t{kWarp} * blockIdx.x + threadIdx.x;
  const int64_t begin = b.rows * blockIdx.y / gridDim.y, end = b.rows * (blockIdx.y + 1) / gridDim.y;
  float dgamma = 0, dbeta = 0;
  if (col < b.cols)
    for (int64_t r = begin + threadIdx.y; r < end; r += kColumnThreads) {
      const float dy = to_float(b.dy[r * b.cols + col]);
      dgamma += dy * ((to_float(b.x[r * b.cols + col]) - b.mean[r]) * b.rstd[r]);
      dbeta += dy;
    }
  __shared__ float sums[2][kColumnThreads][kWarp];
  sums[0][threadIdx.y][threadIdx.x] = dgamma;
  sums[1][threadIdx.y][threadIdx.x] = dbeta;
  __syncthreads();
  if (threadIdx.y >= 2 || col >= b.cols) return;
  float sum = 0;
  for (int k = 0; k < kColumnThreads; ++k) sum += sums[threadIdx.y][k][threadIdx.x];
  b.partial[(2 * int64_t{blockIdx.y} + threadIdx.y) * b.cols + col] = sum;
}

template <bool kDropout, typename T>
void launch(cudaStream_t stream, const Backward<T>& b, bool vectors, float* dgamma, float* dbeta) {
  if (b.cols == 0) return;
  int64_t blocks = block_count({b.rows, b.cols});
  const auto held = [&]<int kVectors>(std::integral_constant<int, kVectors>) {
    held_kernel<kVectors, kDropout>
        <<<static_cast<unsigned>(blocks), kVectors * kGroups<kVectors> * kWarp, 0, stream>>>(b);
  };
  if (vectors && b.cols <= kMostVectors * kVectorCols) {
    if (b.cols <= kVectorCols)
      held(std::integral_constant<int, 1>{});
    else if (b.cols <= 2 * kVectorCols)
      held(std::integral_constant<int, 2>{});
    else if (b.cols <= 3 * kVectorCols)
      held(std::integral_constant<int, 3>{});
    else
      held(std::integral_constant<int, 4>{});
  } else {
    // the columns first: dx may be dy
    blocks = std::min(blocks, kMostPieces);
    const dim3 grid(static_cast<unsigned>(ceil_div(b.cols, kWarp)), static_cast<unsigned>(blocks));
    columns_kernel<<<grid, dim3(kWarp, kColumnThreads), 0, stream>>>(b);
    const auto row_blocks = static_cast<unsigned>(ceil_div(b.rows, kBlockRows));
    if (b.rows > 0 && vectors) reread_kernel<8, kDropout><<<row_blocks, kThreads, 0, stream>>>(b);
    if (b.rows > 0 && !vectors) reread_kernel<1, kDropout><<<row_blocks, kThreads, 0, stream>>>(b);
  }
  finish_sums(stream, blocks, b.partial, {b.cols, dgamma, dbeta});
}

}  // namespace

size_t layer_norm_bwd_workspace_bytes(RowsSize s) {
  return static_cast<size_t>(2 * block_count(s) * s.cols) * sizeof(float);
}

void layer_norm_bwd(cudaStream_t stream, DType t, RowsSize s, const void* dy, const void* x,
                    const float* gamma, const float* mean, const float* rstd, void* dx, float* dgamma,
                    float* dbeta, void* workspace) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 && aligned16(dy, x, gamma, static_cast<const void*>(dx));
    const Backward<T> b{s.rows,
                        s.cols,
                        static_cast<const T*>(dy),
                        static_cast<const T*>(x),
                        gamma,
                        mean,
                        rstd,
                        static_cast<T*>(dx),
                        nullptr,
                        {},
                        static_cast<float*>(workspace)};
    launch<false>(stream, b, vectors, dgamma, dbeta);
  });
}

void layer_norm_dropout_bwd(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                            const int32_t* sample_ids, const int32_t* positions, const void* dy,
                            const void* x, const float* gamma, const float* mean, const float* rstd, void* dx,
                            void* dd, float* dgamma, float* dbeta, void* workspace) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 &&
                         aligned16(dy, x, gamma, static_cast<const void*>(dx), static_cast<const void*>(dd));
    const Backward<T> b{s.rows,
                        s.cols,
                        static_cast<const T*>(dy),
                        static_cast<const T*>(x),
                        gamma,
                        mean,
                        rstd,
                        static_cast<T*>(dx),
                        static_cast<T*>(dd),
                        {rule, sample_ids, positions},
                        static_cast<float*>(workspace)};
    launch<true>(stream, b, vectors, dgamma, dbeta);
  });
}

}  // namespace lathe::cuda
