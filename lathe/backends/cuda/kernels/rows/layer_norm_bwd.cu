// The derivatives of layer normalisation.  With x̂ = (x − mean) · rstd, g = dy · gamma and ⟨⟩ the mean over a
// row: dx = rstd · (g − ⟨g⟩ − x̂ ⟨g x̂⟩), dgamma = Σ dy x̂ and dbeta = Σ dy over the rows.
#include <algorithm>

#include "lathe/backends/cuda/kernels/rows/column_sums.cuh"
#include "lathe/backends/cuda/kernels/rows/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kBlockRows = kThreads / kWarp;
/// Columns of one vector per lane, and the most vectors that a lane holds.
constexpr int64_t kVectorCols = 8 * kWarp, kMostVectors = 4;
/// Where sums of columns stay in registers: warps of a block, each with rows of its own, and such blocks that
/// are resident at once on a multiprocessor.
constexpr int held_warps(int64_t vectors) { return vectors > 3 ? 12 : 8; }
constexpr int resident_blocks(int64_t vectors) { return vectors > 3 ? 1 : 2; }
constexpr int64_t kMultiprocessors = 132;
/// Pieces of the rows where columns are summed apart from dx.
constexpr int64_t kMostPieces = 64;

int64_t block_count(RowsSize s) {
  const int64_t vectors = ceil_div(s.cols, kVectorCols);
  return std::clamp<int64_t>(ceil_div(s.rows, held_warps(vectors)), 1,
                             kMultiprocessors * resident_blocks(vectors));
}

template <typename T>
struct Backward {
  int64_t rows, cols;
  const T *dy, *x;
  const float *gamma, *mean, *rstd;
  T* dx;
  float* partial;         ///< [blocks][2][cols]: dgamma and dbeta of each block's rows
  const T* past = {};     ///< of a kernel that adds it to dx
  T* dd = {};             ///< of a kernel with dropout
  DropoutSite site = {};  ///< the same
};

/// What all kernels read and write.
template <typename T>
Backward<T> backward_of(RowsSize s, const void* dy, const void* x, const float* gamma, const float* mean,
                        const float* rstd, void* dx, void* workspace) {
  return {s.rows, s.cols, static_cast<const T*>(dy), static_cast<const T*>(x),      gamma,
          mean,   rstd,   static_cast<T*>(dx),       static_cast<float*>(workspace)};
}

/// What a kernel does in addition.
enum class Also { kNothing, kDropout, kAdd };

/// Stores dx of kWidth columns, with what came past added, or also dropout of what was stored.
template <Also kAlso, int kWidth, typename T>
__device__ inline void store_gradient(const Backward<T>& b, int64_t at, int64_t col,
                                      const DropoutRow& dropout, float (&dx)[kWidth]) {
  if constexpr (kAlso == Also::kAdd) {
    const Vec<T, kWidth> past = load_vec<kWidth>(b.past + at + col);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) dx[j] += to_float(past.at[j]);
  }
  const Vec<T, kWidth> stored = round_vec<T>(dx);
  store_vec(b.dx + at + col, stored);
  if constexpr (kAlso == Also::kDropout) {
    to_floats(stored, dx);
    dropout.apply(col, dx);
    store_vec(b.dd + at + col, dx);
  }
}

/// Adds up the warps' sums in a fixed order and writes them as this block's: four warps at a time, each to a
/// place of its own.
template <int kVectors, typename T>
__device__ inline void store_partial(const Backward<T>& b, const float (&dgamma)[kVectors][8],
                                     const float (&dbeta)[kVectors][8]) {
  constexpr int kPlaces = 4, kWarps = held_warps(kVectors);
  __shared__ float sums[kPlaces][2][kVectors * kVectorCols];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int turn = 0; turn < kWarps / kPlaces; ++turn) {
    if (warp / kPlaces == turn) {
      float(&own)[2][kVectors * kVectorCols] = sums[warp % kPlaces];
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int at = (8 * v + j) * kWarp + lane;  // neighbouring lanes, neighbouring banks
          own[0][at] = turn == 0 ? dgamma[v][j] : own[0][at] + dgamma[v][j];
          own[1][at] = turn == 0 ? dbeta[v][j] : own[1][at] + dbeta[v][j];
        }
    }
    __syncthreads();
  }
  float* to = b.partial + 2 * b.cols * blockIdx.x;
  for (int c = static_cast<int>(threadIdx.x); c < b.cols; c += kWarps * kWarp) {
    const int at = (c / 256 * 8 + c % 8) * kWarp + c / 8 % kWarp;
#pragma unroll
    for (int s = 0; s < 2; ++s)
      to[s * b.cols + c] = (sums[0][s][at] + sums[1][s][at]) + (sums[2][s][at] + sums[3][s][at]);
  }
}

/// cols is a multiple of 8 and at most 256 kVectors.  Columns beyond are zeros.
template <int kVectors, Also kAlso, typename T>
__global__ void __launch_bounds__(held_warps(kVectors) * kWarp, resident_blocks(kVectors))
    held_kernel(Backward<T> b) {
  follow();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int cols = static_cast<int>(b.cols);
  const float share = 1.f / static_cast<float>(cols);
  const auto col = [&](int v) { return 8 * (lane + kWarp * v); };
  float dgamma[kVectors][8] = {}, dbeta[kVectors][8] = {};
  constexpr int64_t kWarps = held_warps(kVectors);
  for (int64_t r = kWarps * blockIdx.x + threadIdx.x / kWarp; r < b.rows; r += kWarps * gridDim.x) {
    Vec<T, 8> dy[kVectors] = {}, x[kVectors] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (col(v) < cols) {
        dy[v] = load_vec<8>(b.dy + r * cols + col(v));
        x[v] = load_vec<8>(b.x + r * cols + col(v));
      }
    const float mean = b.mean[r], rstd = b.rstd[r];
    const auto normal = [&](int v, int j) { return (to_float(x[v].at[j]) - mean) * rstd; };
    float sum = 0, skew = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (col(v) >= cols) continue;
      const Vec<float, 8> gamma = load_vec<8>(b.gamma + col(v));  // from the first cache, row after row
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float d = to_float(dy[v].at[j]), hat = normal(v, j), g = d * gamma.at[j];
        sum += g;
        skew += g * hat;
        dgamma[v][j] += d * hat;
        dbeta[v][j] += d;
      }
    }
    sum = warp_sum(sum) * share;
    skew = warp_sum(skew) * share;
    DropoutRow dropout{};
    if constexpr (kAlso == Also::kDropout) dropout = b.site.row(r);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (col(v) >= cols) continue;
      const Vec<float, 8> gamma = load_vec<8>(b.gamma + col(v));
      float dx[8];
#pragma unroll
      for (int j = 0; j < 8; ++j)
        dx[j] = rstd * (to_float(dy[v].at[j]) * gamma.at[j] - sum - normal(v, j) * skew);
      store_gradient<kAlso>(b, r * cols, col(v), dropout, dx);
    }
  }
  store_partial(b, dgamma, dbeta);
}

/// Only dx, for any number of columns; the row is read twice.  dx may be dy: a lane reads its columns before
/// it writes them.
template <int kWidth, Also kAlso, typename T>
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
  if constexpr (kAlso == Also::kDropout) dropout = b.site.row(r);
  for_columns([&](int64_t col, float(&g)[kWidth], const float(&hat)[kWidth]) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) g[j] = rstd * (g[j] - sum - hat[j] * skew);
    store_gradient<kAlso>(b, at, col, dropout, g);
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

/// Returns the number of parts.
template <Also kAlso, typename T>
int64_t launch(cudaStream_t stream, const Backward<T>& b, bool vectors) {
  if (b.cols == 0) return 0;
  int64_t blocks = block_count({b.rows, b.cols});
  const auto held = [&](auto kernel) {
    const int threads = held_warps(ceil_div(b.cols, kVectorCols)) * kWarp;
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(b);
  };
  if (vectors && b.cols <= kMostVectors * kVectorCols) {
    if (b.cols <= kVectorCols)
      held(held_kernel<1, kAlso, T>);
    else if (b.cols <= 2 * kVectorCols)
      held(held_kernel<2, kAlso, T>);
    else if (b.cols <= 3 * kVectorCols)
      held(held_kernel<3, kAlso, T>);
    else
      held(held_kernel<4, kAlso, T>);
  } else {
    // the columns first: dx may be dy
    blocks = std::min(blocks, kMostPieces);
    const dim3 grid(static_cast<unsigned>(ceil_div(b.cols, kWarp)), static_cast<unsigned>(blocks));
    columns_kernel<<<grid, dim3(kWarp, kColumnThreads), 0, stream>>>(b);
    const auto row_blocks = static_cast<unsigned>(ceil_div(b.rows, kBlockRows));
    if (b.rows > 0 && vectors) reread_kernel<8, kAlso><<<row_blocks, kThreads, 0, stream>>>(b);
    if (b.rows > 0 && !vectors) reread_kernel<1, kAlso><<<row_blocks, kThreads, 0, stream>>>(b);
  }
  return blocks;
}

}  // namespace

size_t layer_norm_bwd_workspace_bytes(RowsSize s) {
  return static_cast<size_t>(2 * block_count(s) * s.cols) * sizeof(float);
}

void layer_norm_bwd_sums(cudaStream_t stream, int64_t cols, int64_t parts, const void* workspace,
                         float* dgamma, float* dbeta) {
  if (cols == 0) return;
  finish_sums(stream, parts, static_cast<const float*>(workspace), {cols, dgamma, dbeta});
}

int64_t layer_norm_bwd(cudaStream_t stream, DType t, RowsSize s, const void* dy, const void* x,
                       const float* gamma, const float* mean, const float* rstd, const void* past, void* dx,
                       void* workspace) {
  int64_t parts = 0;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 && aligned16(dy, x, gamma, past, static_cast<const void*>(dx));
    auto b = backward_of<T>(s, dy, x, gamma, mean, rstd, dx, workspace);
    b.past = static_cast<const T*>(past);
    parts =
        past == nullptr ? launch<Also::kNothing>(stream, b, vectors) : launch<Also::kAdd>(stream, b, vectors);
  });
  return parts;
}

int64_t layer_norm_dropout_bwd(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                               const int32_t* sample_ids, const int32_t* positions, const void* dy,
                               const void* x, const float* gamma, const float* mean, const float* rstd,
                               void* dx, void* dd, void* workspace) {
  int64_t parts = 0;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 &&
                         aligned16(dy, x, gamma, static_cast<const void*>(dx), static_cast<const void*>(dd));
    auto b = backward_of<T>(s, dy, x, gamma, mean, rstd, dx, workspace);
    b.dd = static_cast<T*>(dd);
    b.site = {rule, sample_ids, positions};
    parts = launch<Also::kDropout>(stream, b, vectors);
  });
  return parts;
}

}  // namespace lathe::cuda
