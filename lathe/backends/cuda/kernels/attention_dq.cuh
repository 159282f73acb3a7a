#pragma once
// Backward attention on the tensor cores, gradients of the queries of rows that are longer than a tile of
// attention_dkv.cuh (`whole` keys): one block per head and tile of queries, 16 of them per warp; the keys
// pass through shared memory in tiles, the next one on its way while one is computed.
#include "lathe/backends/cuda/kernels/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention_tile.cuh"

namespace lathe::cuda {

template <int DP>
struct DqShape {
  static constexpr int kWarps = DP <= 128 ? 4 : 2, kThreads = kWarps * kWarp, kQueries = 16 * kWarps;
  static constexpr int kKeys = DP <= 64 ? 64 : 32;
  static constexpr int kStep = 32;  // keys whose scores are in registers at once
  static constexpr int kRow = DP + kRowPad;
  static constexpr int kBlocks = DP <= 64 ? 4 : DP == 128 ? 3 : 2;  // per multiprocessor
  static constexpr size_t kBytes = (2 * kQueries + 4 * kKeys) * kRow * 2;
};

/// One warp: 16 queries.  Scores: [16 queries, 32 keys], lane t with keys from 8 t on (`permuted`).
template <typename T, int DP, bool kDrop>
struct DqWarp {
  using Shape = DqShape<DP>;
  using Scores = float[4][4];
  static constexpr int kRow = Shape::kRow;

  Lane<kRow> lane;
  float dq[DP / 8][4] = {};
  float lse[2], delta[2];  // of query g and g + 8; in units of log 2; −(1 − p) Σ dy∘y

  __device__ void products(Scores& s, const T* rows, const T* columns) const {
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[4], b[4];
      load_matrices(a, rows + lane.by_row + 16 * k);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        load_matrices(b, columns + lane.by_column + 16 * n * kRow + 16 * k);
        multiply_add<T>(s + 2 * n, a, b);
      }
    }
  }

  /// dy·v + delta, in dp, becomes delta where dropped.
  __device__ void drop(Scores& dp, const AttentionMask& mask, int query, int key) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 drawn = mask.words(query + 8 * h, key / 8 + lane.t);
      const uint32_t words[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (!mask.keeps(words[i / 2], i % 2)) dp[i / 2][2 * h + i % 2] = delta[h];
    }
  }

  /// 32 keys from `key` on, `valid` of which are there; k, v: of the first of them.
  __device__ void step(float scale, const AttentionMask& mask, const T* q, const T* dy, const T* k,
                       const T* v, int query, int key, int valid) {
    Scores s, dp;
#pragma unroll
    for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = 0, dp[i / 4][i % 4] = delta[i / 2 % 2];
    products(s, q, k);
    products(dp, dy, v);
    if (valid < Shape::kStep) hide_keys(s, lane.t, scale, valid);
    if constexpr (kDrop) drop(dp, mask, query, key);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      s[i / 4][i % 4] = exp2_fast(s[i / 4][i % 4] * scale - lse[i / 2 % 2]) * dp[i / 4][i % 4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint32_t operand[4], b[4];
      as_operand<T>(operand, s + 2 * n);
#pragma unroll
      for (int c = 0; c < DP / 16; ++c) {
        load_matrices_transposed(b, k + lane.by_row + 16 * n * kRow + 16 * c);
        multiply_add<T>(dq + 2 * c, operand, b);
      }
    }
  }
};

template <typename T, int DP, bool kDrop>
__global__ void __launch_bounds__(DqShape<DP>::kThreads, DqShape<DP>::kBlocks)
    attention_dq_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy,
                        const T* __restrict__ qkv, const T* __restrict__ y, const float* __restrict__ lse,
                        T* __restrict__ dqkv, int whole) {
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
  const auto fetch = [&](int key) {
    T* const to = stages + key / kKeys % 2 * 2 * kKeys * kRow;
    const T* const from = from_k + static_cast<int64_t>(key) * stride;
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(to, from, stride, tile.length - key, width);
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(to + kKeys * kRow, from + out_stride, stride,
                                                           tile.length - key, width);
  };
  const int token = tile.begin + tile.first;
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(q, head_of(a, qkv, 3, 0, head, token), stride, left, width);
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(g, head_of(a, dy, 1, 0, head, token), out_stride, left,
                                                  width);
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(own_y, head_of(a, y, 1, 0, head, token), out_stride, left,
                                                  width);
  end_copies();
  fetch(0);
  end_copies();

  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16, query = strip + lane_id() / 4;
  DqWarp<T, DP, kDrop> warp{Lane<kRow>(threadIdx.x)};
#pragma unroll
  for (int h = 0; h < 2; ++h)
    warp.lse[h] = lse[static_cast<int64_t>(head) * a.tokens + token + min(query + 8 * h, left - 1)] * kLog2E;
  wait_for_copies<1>();
  __syncthreads();
  if (strip < left) {
    row_products<T, DP>(warp.delta, g + strip * kRow, own_y + strip * kRow);
    const float factor = kDrop ? -kept_part(a) : -1.f;
    warp.delta[0] *= factor;
    warp.delta[1] *= factor;
  }
  for (int key = 0; key < tile.length; key += kKeys) {
    wait_for_copies<0>();
    __syncthreads();
    if (key + kKeys < tile.length) fetch(key + kKeys);
    end_copies();
    if (strip >= left) continue;
    const T* const k = stages + key / kKeys % 2 * 2 * kKeys * kRow;
#pragma unroll 1
    for (int at = 0; at < min(kKeys, tile.length - key); at += Shape::kStep)
      warp.step(a.scale * kLog2E, mask, q + strip * kRow, g + strip * kRow, k + at * kRow,
                k + (kKeys + at) * kRow, tile.first + query, key + at, tile.length - key - at);
  }
  if (strip >= left) return;
  const float factor = a.scale * (kDrop ? kept_scale(a) : 1.f);
  store_results<kRow>(head_of(a, dqkv, 3, 0, head, token + strip), stride, warp.dq, factor, factor,
                      left - strip, width, q + strip * kRow);
}

}  // namespace lathe::cuda
