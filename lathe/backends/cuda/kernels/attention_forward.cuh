#pragma once
// Forward attention on the tensor cores: one block per head and tile of queries of a row, 16 of them per
// warp; the keys pass through shared memory in tiles, the next one on its way while one is computed.
#include "lathe/backends/cuda/kernels/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention_tile.cuh"
#include "lathe/backends/cuda/kernels/attention_types.h"

namespace lathe::cuda {

/// DP: D rounded up to 32, 64, 128 or 256.
template <int DP>
struct ForwardShape {
  static constexpr int kWarps = DP <= 128 ? 4 : 2, kThreads = kWarps * kWarp, kQueries = 16 * kWarps;
  static constexpr int kKeys = DP <= 128 ? 64 : 32;
  static constexpr int kRow = DP + kRowPad;
  static constexpr int kBlocks = DP <= 64 ? 4 : 2;  // per multiprocessor
  static constexpr size_t kBytes = (kQueries + 4 * kKeys) * kRow * 2;
};

/// One warp: 16 queries.
template <typename T, int DP, bool kDrop>
struct ForwardWarp {
  using Shape = ForwardShape<DP>;
  static constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys;

  Lane<kRow> lane;
  float out[DP / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // of query g and g + 8; in units of log 2

  /// Σ q·k of up to kKeys keys; not of keys from a multiple of 16 ≥ valid on, unless kAll.
  template <bool kAll>
  __device__ void products(float (&s)[kKeys / 8][4], const T* q, const T* keys, int valid) const {
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[4], b[4];
      load_matrices(a, q + lane.by_row + 16 * k);
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        if (!kAll && 16 * n >= valid) continue;
        load_matrices(b, keys + lane.by_column + 16 * n * kRow + 16 * k);
        multiply_add<T>(s + 2 * n, a, b);
      }
    }
  }

  /// Scores of up to kKeys keys, times `scale`; −∞ behind the first `valid`.
  __device__ void scores(float (&s)[kKeys / 8][4], const T* q, const T* keys, float scale, int valid) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0;
    if (valid >= kKeys)
      products<true>(s, q, keys, valid);
    else
      products<false>(s, q, keys, valid);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= scale;
    if (valid >= kKeys) return;
    const int column = lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (8 * n + column + i % 2 >= valid) s[n][i] = -INFINITY;
  }

  /// Scores become exponentials relative to the largest score so far; what was summed before is brought to
  /// it.
  __device__ void exponentials(float (&s)[kKeys / 8][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = largest[h];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      most = quad_max(most);
      const float shrink = exp2_fast(largest[h] - most);
      largest[h] = most;
      sum[h] *= shrink;
#pragma unroll
      for (int n = 0; n < DP / 8; ++n) {
        out[n][2 * h] *= shrink;
        out[n][2 * h + 1] *= shrink;
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) sum[h] += s[n][i] = exp2_fast(s[n][i] - most);
    }
  }

  /// Zeros what is dropped.  The four lanes of a quad compute the calls for 32 keys of their query and
  /// exchange the words: lane t needs word t of each.
  __device__ void drop(float (&s)[kKeys / 8][4], const AttentionMask& mask, int query, int key,
                       int valid) const {
    const int t = lane_id() % 4;
#pragma unroll
    for (int four = 0; four < kKeys / 32; ++four) {
      if (32 * four >= valid) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint4 drawn = mask.words(query + 8 * h, key / 8 + 4 * four + t);
        uint32_t w[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
        transpose_quad(w);
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (!mask.keeps(w[n], i)) s[4 * four + n][2 * h + i] = 0;
      }
    }
  }

  __device__ void weigh(const float (&s)[kKeys / 8][4], const T* values, int valid) {
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      if (16 * k >= valid) continue;
      uint32_t a[4], b[4];
      as_operand<T>(a, s + 2 * k);
#pragma unroll
      for (int n = 0; n < DP / 16; ++n) {
        load_matrices_transposed(b, values + lane.by_row + 16 * k * kRow + 16 * n);
        multiply_add<T>(out + 2 * n, a, b);
      }
    }
  }
};

template <typename T, int DP, bool kDrop>
__global__ void __launch_bounds__(ForwardShape<DP>::kThreads, ForwardShape<DP>::kBlocks)
    attention_forward_kernel(const __grid_constant__ Attention a, const T* __restrict__ qkv,
                             T* __restrict__ y, float* __restrict__ lse) {
  using Shape = ForwardShape<DP>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop>(a, Shape::kQueries, tile, mask);
  const int left = tile.length - tile.first, head = static_cast<int>(blockIdx.y);
  if (left <= 0) return;
  const int width = static_cast<int>(a.width), in_stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  lse += static_cast<int64_t>(head) * a.tokens;
  if (tile.row == a.rows) {
    const int count = min(left, Shape::kQueries), token = tile.begin + tile.first;
    clear_tokens(head_of(a, y, 1, 0, head, token), out_stride, count, width);
    clear_tokens(lse + token, 1, count, 1);
    return;
  }

  extern __shared__ __align__(16) unsigned char shared[];
  T* const q = reinterpret_cast<T*>(shared);
  T* const stages = q + Shape::kQueries * kRow;  // keys and values of two tiles
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin);
  const auto fetch = [&](int key, T* stage) {
    const T* const from = from_k + static_cast<int64_t>(key) * in_stride;
    copy_tile<T, DP, kKeys, kThreads, 16>(stage, from, in_stride, tile.length - key, width);
    copy_tile<T, DP, kKeys, kThreads, 16>(stage + kKeys * kRow, from + out_stride, in_stride,
                                          tile.length - key, width);
  };
  copy_tile<T, DP, Shape::kQueries, kThreads, 16>(q, head_of(a, qkv, 3, 0, head, tile.begin + tile.first),
                                                  in_stride, left, width);
  fetch(0, stages);

  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16, query = tile.first + strip + lane_id() / 4;
  const float scale = a.scale * kLog2E;
  ForwardWarp<T, DP, kDrop> warp{Lane<kRow>(threadIdx.x)};
  for (int key = 0; key < tile.length; key += kKeys) {
    const int parity = key / kKeys % 2;
    wait_for_copies();
    __syncthreads();
    if (key + kKeys < tile.length) fetch(key + kKeys, stages + (1 - parity) * 2 * kKeys * kRow);
    if (strip >= left) continue;
    const T* const keys = stages + parity * 2 * kKeys * kRow;
    const int valid = tile.length - key;
    float s[kKeys / 8][4];
    warp.scores(s, q + strip * kRow, keys, scale, valid);
    warp.exponentials(s);
    if constexpr (kDrop) warp.drop(s, mask, query, key, valid);
    warp.weigh(s, keys + kKeys * kRow, valid);
  }
  if (strip >= left) return;
  const int token = tile.begin + tile.first + strip;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(warp.sum[h]);
    factor[h] = (kDrop ? kept_scale(a) : 1.f) / sum;
    if (lane_id() % 4 == 0 && query + 8 * h < tile.length)
      lse[tile.begin + query + 8 * h] = (warp.largest[h] + log2f(sum)) * kLn2;
  }
  store_results<T, DP / 8>(head_of(a, y, 1, 0, head, token), out_stride, warp.out, factor[0], factor[1],
                           left - strip, width);
}

template <typename T, int DP>
void launch_forward(cudaStream_t stream, const Attention& a, const T* qkv, T* y, float* lse) {
  using Shape = ForwardShape<DP>;
  const dim3 grid(tiles_of(a, Shape::kQueries), static_cast<unsigned>(a.heads));
  if (a.dropout.threshold > 0)
    launch_tiles<attention_forward_kernel<T, DP, true>>(stream, grid, Shape::kThreads, Shape::kBytes, a, qkv,
                                                        y, lse);
  else
    launch_tiles<attention_forward_kernel<T, DP, false>>(stream, grid, Shape::kThreads, Shape::kBytes, a, qkv,
                                                         y, lse);
}

/// One object file per type instantiates it.
template <typename T>
void attention_forward(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse) {
  const T* from = static_cast<const T*>(qkv);
  T* to = static_cast<T*>(y);
  if (a.width <= 32) return launch_forward<T, 32>(stream, a, from, to, lse);
  if (a.width <= 64) return launch_forward<T, 64>(stream, a, from, to, lse);
  if (a.width <= 128) return launch_forward<T, 128>(stream, a, from, to, lse);
  launch_forward<T, 256>(stream, a, from, to, lse);
}

}  // namespace lathe::cuda
