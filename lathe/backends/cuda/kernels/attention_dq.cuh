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
  static constexpr int kKeys = DP <= 64 ? 64 : DP == 128 ? 32 : 16;
  static constexpr int kStep = kKeys < 32 ? kKeys : 32;  // keys whose scores are in registers at once
  static constexpr int kRow = DP + kRowPad;
  static constexpr int kBlocks = DP <= 64 ? 4 : DP == 128 ? 3 : 2;  // per multiprocessor
  static constexpr size_t kBytes = (2 * kQueries + 4 * kKeys) * kRow * 2;
};

/// One warp: 16 queries.
template <typename T, int DP, bool kDrop>
struct DqWarp {
  using Shape = DqShape<DP>;
  static constexpr int kRow = Shape::kRow, kStep = Shape::kStep;
  using Scores = float[kStep / 8][4];  // [16 queries, kStep keys]

  Lane<kRow> lane;
  float dq[DP / 8][4] = {};
  float lse[2], delta[2];  // of query g and g + 8; lse in units of log 2

  __device__ void products(Scores& s, const T* rows, const T* columns) const {
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[4], b[4];
      load_matrices(a, rows + lane.by_row + 16 * k);
#pragma unroll
      for (int n = 0; n < kStep / 16; ++n) {
        load_matrices(b, columns + lane.by_column + 16 * n * kRow + 16 * k);
        multiply_add<T>(s + 2 * n, a, b);
      }
    }
  }

  /// dp *= the mask; see ForwardWarp::drop.  With kStep = 16, two lanes of a quad draw in vain.
  __device__ static void drop(Scores& dp, const AttentionMask& mask, float kept, int query, int key) {
    const int t = lane_id() % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 drawn = mask.words(query + 8 * h, key / 8 + t);
      uint32_t w[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
      transpose_quad(w);
#pragma unroll
      for (int n = 0; n < kStep / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) dp[n][2 * h + i] = mask.keeps(w[n], i) ? dp[n][2 * h + i] * kept : 0.f;
    }
  }

  /// kStep keys from `key` on; k, v: of the first of them.  `valid` of them are there.
  __device__ void step(const Attention& a, const AttentionMask& mask, const T* q, const T* dy, const T* k,
                       const T* v, int query, int key, int valid) {
    Scores s, dp;
    products(s, q, k);
    products(dp, dy, v);
    if constexpr (kDrop) drop(dp, mask, kept_scale(a), query, key);
    const float scale = a.scale * kLog2E;
    const int column = lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kStep / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = exp2_fast(s[n][i] * scale - lse[i / 2]);
        s[n][i] = 8 * n + column + i % 2 < valid ? p * (dp[n][i] - delta[i / 2]) : 0.f;
      }
#pragma unroll
    for (int n = 0; n < kStep / 16; ++n) {
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
                        const T* __restrict__ qkv, const float* __restrict__ lse,
                        const float* __restrict__ delta, T* __restrict__ dqkv, int whole) {
  using Shape = DqShape<DP>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop>(a, Shape::kQueries, tile, mask);
  const int left = tile.length - tile.first, head = static_cast<int>(blockIdx.y);
  if (left <= 0 || tile.length <= whole || tile.row == a.rows) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3), out_stride = stride_of(a, 1);

  extern __shared__ __align__(16) unsigned char shared[];
  T* const q = reinterpret_cast<T*>(shared);
  T* const g = q + Shape::kQueries * kRow;
  T* const stages = g + Shape::kQueries * kRow;  // keys and values of two tiles
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin);
  const auto fetch = [&](int key) {
    T* const to = stages + key / kKeys % 2 * 2 * kKeys * kRow;
    const T* const from = from_k + static_cast<int64_t>(key) * stride;
    copy_tile<T, DP, kKeys, kThreads, Shape::kStep>(to, from, stride, tile.length - key, width);
    copy_tile<T, DP, kKeys, kThreads, Shape::kStep>(to + kKeys * kRow, from + out_stride, stride,
                                                    tile.length - key, width);
  };
  const int token = tile.begin + tile.first;
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(q, head_of(a, qkv, 3, 0, head, token), stride, left, width);
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(g, head_of(a, dy, 1, 0, head, token), out_stride, left,
                                                  width);
  fetch(0);

  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16, query = strip + lane_id() / 4;
  DqWarp<T, DP, kDrop> warp{Lane<kRow>(threadIdx.x)};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t at = static_cast<int64_t>(head) * a.tokens + token + min(query + 8 * h, left - 1);
    warp.lse[h] = lse[at] * kLog2E;
    warp.delta[h] = delta[at];
  }
  for (int key = 0; key < tile.length; key += kKeys) {
    wait_for_copies();
    __syncthreads();
    if (key + kKeys < tile.length) fetch(key + kKeys);
    if (strip >= left) continue;
    const T* const k = stages + key / kKeys % 2 * 2 * kKeys * kRow;
#pragma unroll 1
    for (int at = 0; at < min(kKeys, tile.length - key); at += Shape::kStep)
      warp.step(a, mask, q + strip * kRow, g + strip * kRow, k + at * kRow, k + (kKeys + at) * kRow,
                tile.first + query, key + at, tile.length - key - at);
  }
  if (strip >= left) return;
  store_results<T, DP / 8>(head_of(a, dqkv, 3, 0, head, token + strip), stride, warp.dq, a.scale, a.scale,
                           left - strip, width);
}

}  // namespace lathe::cuda
