// The derivatives of layer normalisation.  With x̂ = (x − mean) · rstd, g = dy · gamma and ⟨⟩ the mean over a
// row: dx = rstd · (g − ⟨g⟩ − x̂ ⟨g x̂⟩), dgamma = Σ dy x̂ and dbeta = Σ dy over the rows.
#include <cuda_pipeline.h>

#include <algorithm>

#include "lathe/backends/cuda/kernels/column_sums.cuh"
#include "lathe/backends/cuda/kernels/column_sums.h"
#include "lathe/backends/cuda/kernels/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

/// A block of held_kernel: groups of one to four warps, of which each takes whole rows, eight columns a
/// thread. So many blocks are resident at once on a multiprocessor: 80 registers for a thread.
constexpr int kHeldThreads = 384, kResident = 2;
constexpr int64_t kHeldCols = 1024, kWarpCols = 8 * kWarp;
constexpr int64_t kHeldBlocks = 132 * kResident;
/// Rows that a group takes at once: four of 16 bits, two of 32.
constexpr int rows_at_once(size_t element_bytes) { return element_bytes == 2 ? 4 : 2; }

/// Threads of a block of the other kernels, a warp for each row.
constexpr int kThreads = 128;
constexpr int kBlockRows = kThreads / kWarp;
/// Pieces of the rows where columns are summed apart from dx.
constexpr int64_t kMostPieces = 64;

int64_t warps_of(int64_t cols) { return std::clamp<int64_t>(ceil_div(cols, kWarpCols), 1, 4); }

/// Blocks of which each gives partial sums; the most for an element of four bytes.
int64_t block_count(RowsSize s, size_t element_bytes) {
  const int64_t groups = kHeldThreads / kWarp / warps_of(s.cols);
  return std::clamp<int64_t>(ceil_div(s.rows, groups * rows_at_once(element_bytes)), 1, kHeldBlocks);
}

template <typename T>
struct Backward {
  int64_t rows, cols;
  const T *dy, *x;
  const float *gamma, *mean, *rstd;
  T* dx;
  T* dd;             ///< of a kernel with dropout
  DropoutSite site;  ///< the same
  float* partial;    ///< [blocks][2 or 3][cols]: dgamma, dbeta and, with dropout, Σ dd of each block's rows
};

/// Where the rows of a block of held_kernel arrive, thread by thread, and then its sums lie.
template <typename T>
struct Held {
  static constexpr int kRows = rows_at_once(sizeof(T));
  Vec<T, 8> dy[kRows][kHeldThreads], x[kRows][kHeldThreads];
  float2 row_sums[2][kHeldThreads / kWarp][kRows];  ///< of each warp, in turns: one barrier for each round

  /// Starts to load eight columns as row k; zeros where they are not `inside`.
  __device__ void start(const Backward<T>& b, int k, int64_t at, bool inside) {
    constexpr int kPieces = sizeof(dy[0][0]) / 16;
    const auto piece = [](const auto* p, int i) { return reinterpret_cast<const char*>(p) + 16 * i; };
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const size_t zeros = inside ? 0 : 16;
      __pipeline_memcpy_async(const_cast<char*>(piece(&dy[k][threadIdx.x], i)), piece(b.dy + at, i), 16,
                              zeros);
      __pipeline_memcpy_async(const_cast<char*>(piece(&x[k][threadIdx.x], i)), piece(b.x + at, i), 16, zeros);
    }
  }
};

/// Sums over the rows that a thread has met, of its eight columns.
struct Sums {
  float dgamma[8], dbeta[8], dd[8];
};

struct Statistics {
  float mean, rstd;
};

/// Adds a row to dgamma and dbeta; gives Σ g and Σ g x̂ over the thread's columns.
template <typename T>
__device__ inline float2 add_row(const Vec<T, 8>& row_dy, const Vec<T, 8>& row_x, Statistics s,
                                 const Vec<float, 8>& gamma, Sums& sums) {
  float dy[8], x[8];
  to_floats(row_dy, dy);
  to_floats(row_x, x);
  float2 row = {0, 0};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float hat = (x[j] - s.mean) * s.rstd, g = dy[j] * gamma.at[j];
    row.x += g;
    row.y += g * hat;
    sums.dgamma[j] += dy[j] * hat;
    sums.dbeta[j] += dy[j];
  }
  return row;
}

/// dx of a row; mean: ⟨g⟩ and ⟨g x̂⟩.
template <typename T>
__device__ inline Vec<T, 8> gradient_of_row(const Vec<T, 8>& row_dy, const Vec<T, 8>& row_x, Statistics s,
                                            const Vec<float, 8>& gamma, float2 mean) {
  float dx[8], x[8];
  to_floats(row_dy, dx);
  to_floats(row_x, x);
  const float slope = s.rstd * mean.y;
#pragma unroll
  for (int j = 0; j < 8; ++j) dx[j] = s.rstd * (dx[j] * gamma.at[j] - mean.x - (x[j] - s.mean) * slope);
  return round_vec<T>(dx);
}

/// Dropout of what was stored; added to sums.dd.  Bit j of kept: column j stays.
template <typename T>
__device__ inline Vec<T, 8> drop(const Vec<T, 8>& stored, uint32_t kept, float scale, Sums& sums) {
  float dd[8];
  to_floats(stored, dd);
#pragma unroll
  for (int j = 0; j < 8; ++j) dd[j] = kept >> j & 1 ? dd[j] * scale : 0.f;
  const Vec<T, 8> dropped = round_vec<T>(dd);
  to_floats(dropped, dd);
#pragma unroll
  for (int j = 0; j < 8; ++j) sums.dd[j] += dd[j];
  return dropped;
}

/// Adds up the groups' sums in their order and writes them as this block's.
template <int kVectors, int kGroupThreads>
__device__ inline void store_partial(int cols, const Sums& sums, float4 (*shared)[kHeldThreads],
                                     float* partial) {
  __syncthreads();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const float(&s)[8] = v == 0 ? sums.dgamma : v == 1 ? sums.dbeta : sums.dd;
    shared[2 * v][threadIdx.x] = make_float4(s[0], s[1], s[2], s[3]);
    shared[2 * v + 1][threadIdx.x] = make_float4(s[4], s[5], s[6], s[7]);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kVectors * kGroupThreads; i += kHeldThreads) {
    const int half = i / kGroupThreads, thread = i % kGroupThreads;
    if (8 * thread >= cols) continue;
    float4 sum = shared[half][thread];
#pragma unroll
    for (int other = thread + kGroupThreads; other < kHeldThreads; other += kGroupThreads) {
      const float4 more = shared[half][other];
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
    float* to = partial + (int64_t{kVectors} * blockIdx.x + half / 2) * cols + 8 * thread + 4 * (half % 2);
    *reinterpret_cast<float4*>(to) = sum;
  }
}

/// cols is a multiple of 8 and at most 256 kWarps.
template <int kWarps, bool kDropout, typename T>
__global__ void __launch_bounds__(kHeldThreads, kResident) held_kernel(Backward<T> b) {
  extern __shared__ __align__(16) unsigned char shared[];
  Held<T>& held = *reinterpret_cast<Held<T>*>(shared);
  constexpr int kRows = Held<T>::kRows, kGroupThreads = kWarps * kWarp,
                kGroups = kHeldThreads / kGroupThreads;
  const int t = static_cast<int>(threadIdx.x), lane = t % kWarp, warp = t / kWarp, group = t / kGroupThreads;
  const int cols = static_cast<int>(b.cols), col = 8 * (t % kGroupThreads);
  const bool inside = col < cols;
  const float share = 1.f / static_cast<float>(cols);
  Vec<float, 8> gamma = {};
  if (inside) gamma = load_vec<8>(b.gamma + col);
  Sums sums = {};
  int turn = 0;
  DropoutRow dropout{};
  if constexpr (kDropout) dropout = b.site.row(0u, 0u);
  int64_t first = (int64_t{kGroups} * blockIdx.x + group) * kRows;  // of the group's rows
  const int64_t stride = int64_t{kGroups * kRows} * gridDim.x;
#pragma unroll
  for (int k = 0; k < kRows; ++k) held.start(b, k, (first + k) * cols + col, inside && first + k < b.rows);
  for (int64_t base = int64_t{kGroups * kRows} * blockIdx.x; base < b.rows;
       base += stride, first += stride, turn ^= 1) {
    const auto of_row = [&](auto value, int k) { return __shfl_sync(kAllLanes, value, k); };
    float mean_of_lane = 0, rstd_of_lane = 0;  // lane k: of row k
    uint32_t sample = 0, position = 0, kept = 0;
    if (lane < kRows && first + lane < b.rows) {
      mean_of_lane = b.mean[first + lane], rstd_of_lane = b.rstd[first + lane];
      if constexpr (kDropout) sample = b.site.sample(first + lane), position = b.site.position(first + lane);
    }
    if constexpr (kDropout) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        dropout.sample = of_row(sample, k), dropout.position = of_row(position, k);
        kept |= dropout.kept(col) << (8 * k);
      }
    }
    const auto statistics = [&](int k) -> Statistics {
      return {of_row(mean_of_lane, k), of_row(rstd_of_lane, k)};
    };
    __pipeline_wait_prior(0);
#pragma unroll 1
    for (int k = 0; k < kRows; ++k) {
      float2 row = add_row(held.dy[k][t], held.x[k][t], statistics(k), gamma, sums);
      row = {warp_sum(row.x), warp_sum(row.y)};
      if (lane == 0) held.row_sums[turn][warp][k] = row;
    }
    __barrier_sync_count(1 + group, kGroupThreads);
#pragma unroll 1
    for (int k = 0; k < kRows; ++k) {
      float2 mean = {0, 0};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float2 more = held.row_sums[turn][group * kWarps + w][k];
        mean.x += more.x * share, mean.y += more.y * share;
      }
      const Vec<T, 8> dx = gradient_of_row(held.dy[k][t], held.x[k][t], statistics(k), gamma, mean);
      const int64_t at = first * cols + col + k * cols;
      if (inside && first + k < b.rows) {
        store_vec(b.dx + at, dx);
        if constexpr (kDropout) store_vec(b.dd + at, drop(dx, kept >> (8 * k), b.site.rule.scale, sums));
      }
      if (base + stride < b.rows) held.start(b, k, at + stride * cols, inside && first + stride + k < b.rows);
    }
  }
  constexpr int kVectors = kDropout ? 3 : 2;
  static_assert(2 * kVectors * kHeldThreads * sizeof(float4) <= sizeof(held.dy) + sizeof(held.x));
  __pipeline_wait_prior(0);
  store_partial<kVectors, kGroupThreads>(cols, sums, reinterpret_cast<float4(*)[kHeldThreads]>(shared),
                                         b.partial);
}

/// dx alone, of any number of columns; the row is read twice.  dx may be dy: a lane reads its columns before
/// it writes them.
template <int kWidth, bool kDropout, typename T>
__global__ void __launch_bounds__(kThreads) reread_kernel(Backward<T> b) {
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
    store_vec(b.dx + at + col, g);
    if constexpr (kDropout) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) g[j] = to_float(from_float<T>(g[j]));
      dropout.apply(col, g);
      store_vec(b.dd + at + col, g);
    }
  });
}

/// dgamma and dbeta of one piece of the rows and 32 columns.
constexpr int kColumnThreads = 8;  // along the rows
template <typename T>
__global__ void __launch_bounds__(kWarp* kColumnThreads) columns_kernel(Backward<T> b) {
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
void launch_held(cudaStream_t stream, int64_t blocks, const Backward<T>& b) {
  const auto held = [&](auto kernel) {
    constexpr size_t kBytes = sizeof(Held<T>);  // more than 48 KiB have to be asked for
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes));
    kernel<<<static_cast<unsigned>(blocks), kHeldThreads, kBytes, stream>>>(b);
  };
  switch (warps_of(b.cols)) {
    case 1:
      return held(held_kernel<1, kDropout, T>);
    case 2:
      return held(held_kernel<2, kDropout, T>);
    case 3:
      return held(held_kernel<3, kDropout, T>);
    default:
      return held(held_kernel<4, kDropout, T>);
  }
}

/// sums: of dgamma, dbeta and, with dropout, dd.
template <bool kDropout, typename T>
void launch(cudaStream_t stream, const Backward<T>& b, bool vectors, const SumRows& sums) {
  if (b.cols == 0) return;
  int64_t blocks = block_count({b.rows, b.cols}, sizeof(T));
  if (vectors && b.cols <= kHeldCols) {
    launch_held<kDropout>(stream, blocks, b);
    return finish_sums(stream, blocks, kDropout ? 3 : 2, b.partial, sums);
  }
  // the columns first: dx may be dy
  blocks = std::min(blocks, kMostPieces);
  const dim3 grid(static_cast<unsigned>(ceil_div(b.cols, kWarp)), static_cast<unsigned>(blocks));
  columns_kernel<<<grid, dim3(kWarp, kColumnThreads), 0, stream>>>(b);
  finish_sums(stream, blocks, 2, b.partial, sums);
  const auto row_blocks = static_cast<unsigned>(ceil_div(b.rows, kBlockRows));
  if (b.rows > 0 && vectors) reread_kernel<8, kDropout><<<row_blocks, kThreads, 0, stream>>>(b);
  if (b.rows > 0 && !vectors) reread_kernel<1, kDropout><<<row_blocks, kThreads, 0, stream>>>(b);
  if (kDropout && sums.third != nullptr)
    column_sums(stream, type_of<T>, b.rows, b.cols, b.dd, sums.third, b.partial);
}

}  // namespace

size_t layer_norm_bwd_workspace_bytes(RowsSize s) {
  const size_t held = static_cast<size_t>(3 * block_count(s, sizeof(float)) * s.cols) * sizeof(float);
  return std::max(held, column_sums_workspace_bytes(s.rows, s.cols));
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
    launch<false>(stream, b, vectors, {s.cols, dgamma, dbeta});
  });
}

void layer_norm_dropout_bwd(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                            const int32_t* sample_ids, const int32_t* positions, const void* dy,
                            const void* x, const float* gamma, const float* mean, const float* rstd, void* dx,
                            void* dd, float* dgamma, float* dbeta, float* dd_sums, void* workspace) {
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
    launch<true>(stream, b, vectors, {s.cols, dgamma, dbeta, dd_sums});
  });
}

}  // namespace lathe::cuda
