#pragma once
// Backward attention on the tensor cores, gradients of the queries of rows that are longer than a tile of
// attention_dkv.cuh (`whole` keys): one block per head and tile of queries, 16 of them per warp; the keys
// pass through shared memory in tiles, the next one on its way while one is computed.
#include "lathe/backends/cuda/kernels/attention/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"

namespace lathe::cuda {

/// DP: D rounded up to 32, 64, 128 or 256.  A warp has kStrips times 16 queries.
template <int DP>
struct DqShape {
  static constexpr int kWarps = DP <= 128 ? 4 : 2, kThreads = kWarps * kWarp;
  static constexpr int kStrips = DP <= 64 ? 2 : 1, kQueries = 16 * kStrips * kWarps;
  static constexpr int kKeys = DP <= 64 ? 64 : 32;
  static constexpr int kStep = 32;  // keys whose scores are in registers at once
  static constexpr int kRow = DP + kRowPad;
  static constexpr int kBlocks = DP == 32 || DP == 128 ? 3 : 2;  // per multiprocessor
  static constexpr size_t kBytes = (2 * kQueries + 4 * kKeys) * kRow * 2;
};

/// One warp.  Scores of a strip: [16 queries, 32 keys], lane t with keys from 8 t on (Order::permuted).
template <typename T, int DP, bool kDrop, bool kWindow>
struct DqWarp {
  using Shape = DqShape<DP>;
  static constexpr int kRow = Shape::kRow, S = Shape::kStrips;
  using Scores = float[S][4][4];

  Lane<kRow> lane;
  float dq[S][DP / 8][4] = {};
  float lse[S][2], delta[S][2];  // of query g and g + 8; in units of log 2; −(1 − p) Σ dy∘y

  __device__ void products(Scores& s, const T* rows, const T* columns) const {
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[S][4], b[4];
#pragma unroll
      for (int m = 0; m < S; ++m) load_matrices(a[m], rows + lane.by_row + 16 * m * kRow + 16 * k);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        load_matrices(b, columns + lane.by_column + 16 * n * kRow + 16 * k);
#pragma unroll
        for (int m = 0; m < S; ++m) multiply_add<T>(s[m] + 2 * n, a[m], b);
      }
    }
  }

  /// Scores s and dy·v, in dp, become gradients of scores, in s.
  __device__ void gradients(Scores& s, const Scores& dp, float scale, const AttentionMask& mask, int query,
                            int key) const {
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) {
      uint32_t words[4];
      if constexpr (kDrop) {
        const uint4 drawn = mask.words(query + 8 * i, key / 8 + lane.t);
        words[0] = drawn.x, words[1] = drawn.y, words[2] = drawn.z, words[3] = drawn.w;
      }
      const int m = i / 2, h = i % 2;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float& x = s[m][j / 2][2 * h + j % 2];
        const float p = exp2_fast(x * scale - lse[m][h]);
        const float kept = !kDrop || mask.keeps(words[j / 2], j % 2) ? p : 0.f;
        x = kept * dp[m][j / 2][2 * h + j % 2] + p * delta[m][h];
      }
    }
  }

  /// 32 keys from `key` on, `valid` of which are there; k, v: of the first of them.  query: g's.
  __device__ void step(float scale, const AttentionMask& mask, const T* q, const T* dy, const T* k,
                       const T* v, int query, int key, int valid, int window) {
    Scores s = {}, dp = {};
    products(s, q, k);
    products(dp, dy, v);
    if (valid < Shape::kStep)
#pragma unroll
      for (int m = 0; m < S; ++m) hide_keys(s[m], lane.t, scale, valid);
    if constexpr (kWindow)
#pragma unroll
      for (int m = 0; m < S; ++m) hide_far_keys(s[m], lane.t, scale, query + 16 * m - key, window);
    gradients(s, dp, scale, mask, query, key);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint32_t operand[S][4], b[4];
#pragma unroll
      for (int m = 0; m < S; ++m) as_operand<T>(operand[m], s[m] + 2 * n);
#pragma unroll
      for (int c = 0; c < DP / 16; ++c) {
        load_matrices_transposed(b, k + lane.by_row + 16 * n * kRow + 16 * c);
#pragma unroll
        for (int m = 0; m < S; ++m) multiply_add<T>(dq[m] + 2 * c, operand[m], b);
      }
    }
  }
};

template <typename T, int DP, bool kDrop, bool kWindow>
__global__ void __launch_bounds__(DqShape<DP>::kThreads, DqShape<DP>::kBlocks)
    attention_dq_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy,
                        const T* __restrict__ qkv, const T* __restrict__ y, const float* __restrict__ lse,
                        T* __restrict__ dqkv, int whole) {
  follow();
  using Shape = DqShape<DP>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop, Shape::kQueries>(a, tile, mask);
  const int left = tile.length - tile.first, head = tile.head;
  if (left <= 0 || tile.length <= whole || tile.row == a.rows) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3), out_stride = stride_of(a, 1);

  extern __shared__ __align__(16) unsigned char shared[];
  T* const q = reinterpret_cast<T*>(shared);
  T* const g = q + Shape::kQueries * kRow;
  T* const stages = g + Shape::kQueries * kRow;  // keys and values of two tiles
  T* const own_y = stages + 2 * kKeys * kRow;    // before the second tile comes
  static_assert(Shape::kQueries <= 2 * kKeys);
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin);
  const int2 seen = reach<kWindow>(a, tile.first, Shape::kQueries, tile.length, kKeys);
  const auto stage_of = [&](int key) { return stages + (key - seen.x) / kKeys % 2 * 2 * kKeys * kRow; };
  const auto fetch = [&](int key) {
    T* const to = stage_of(key);
    const T* const from = from_k + static_cast<int64_t>(key) * stride;
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(to, from, stride, tile.length - key, width);
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(to + kKeys * kRow, from + out_stride, stride,
                                                           tile.length - key, width);
  };
  const int token = tile.begin + tile.first;
  copy_tile<T, DP, Shape::kQueries, kThreads, 16 * Shape::kStrips>(q, head_of(a, qkv, 3, 0, head, token),
                                                                   stride, left, width);
  copy_tile<T, DP, Shape::kQueries, kThreads, 16 * Shape::kStrips>(g, head_of(a, dy, 1, 0, head, token),
                                                                   out_stride, left, width);
  copy_tile<T, DP, Shape::kQueries, kThreads, 16 * Shape::kStrips>(own_y, head_of(a, y, 1, 0, head, token),
                                                                   out_stride, left, width);
  end_copies();
  fetch(seen.x);
  end_copies();

  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16 * Shape::kStrips,
            query = strip + lane_id() / 4;
  DqWarp<T, DP, kDrop, kWindow> warp{Lane<kRow>(threadIdx.x)};
  lse += static_cast<int64_t>(head) * a.tokens + token;
#pragma unroll
  for (int i = 0; i < 2 * Shape::kStrips; ++i)
    warp.lse[i / 2][i % 2] = lse[min(query + 8 * i, left - 1)] * kLog2E;
  wait_for_copies<1>();
  __syncthreads();
  if (strip < left)
#pragma unroll
    for (int m = 0; m < Shape::kStrips; ++m) {
      const int row = (strip + 16 * m) * kRow;
      row_products<T, DP>(warp.delta[m], g + row, own_y + row);
      warp.delta[m][0] *= kDrop ? -kept_part(a) : -1.f;
      warp.delta[m][1] *= kDrop ? -kept_part(a) : -1.f;
    }
  for (int key = seen.x; key < seen.y; key += kKeys) {
    wait_for_copies<0>();
    __syncthreads();
    if (key + kKeys < seen.y) fetch(key + kKeys);
    end_copies();
    if (strip >= left) continue;
    const T* const k = stage_of(key);
#pragma unroll 1
    for (int at = 0; at < min(kKeys, tile.length - key); at += Shape::kStep)
      warp.step(a.scale * kLog2E, mask, q + strip * kRow, g + strip * kRow, k + at * kRow,
                k + (kKeys + at) * kRow, tile.first + query, key + at, tile.length - key - at, a.window);
  }
  if (strip >= left) return;
  const float factor = a.scale * (kDrop ? kept_scale(a) : 1.f);
#pragma unroll
  for (int m = 0; m < Shape::kStrips; ++m)
    store_results<kRow>(head_of(a, dqkv, 3, 0, head, token + strip + 16 * m), stride, warp.dq[m], factor,
                        factor, left - strip - 16 * m, width, q + (strip + 16 * m) * kRow);
}

}  // namespace lathe::cuda
