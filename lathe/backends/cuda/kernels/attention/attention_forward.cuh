#pragma once
// Forward attention on the tensor cores: one block per head and tile of queries of a row; the keys pass
// through shared memory in tiles, the next one on its way while one is computed.
#include "lathe/backends/cuda/kernels/attention/attention_group_forward.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_types.h"

namespace lathe::cuda {

/// DP: D rounded up to 32, 64, 128 or 256.  A warp has kStrips times 16 queries.
template <int DP, int S>
struct ForwardShape {
  static constexpr int kStrips = S, kWarps = DP <= 128 ? 4 : 2, kThreads = kWarps * kWarp;
  static constexpr int kQueries = 16 * kStrips * kWarps, kKeys = DP <= 128 ? 64 : 32;
  static constexpr int kStep = 32;  // keys whose scores are in registers at once
  static constexpr int kRow = DP + kRowPad;
  static constexpr int kBlocks = DP <= 64 ? (S == 2 ? 3 : 4) : 2;  // per multiprocessor
  static constexpr size_t kBytes = (kQueries + 4 * kKeys) * kRow * 2;
};

/// One warp: 16 · S queries.  Scores: [16 queries, 32 keys], lane t with keys from 8 t on (`permuted`).
template <typename T, int DP, int S, bool kDrop, bool kWindow>
struct ForwardWarp {
  using Shape = ForwardShape<DP, S>;
  using Scores = float[S][4][4];
  static constexpr int kRow = Shape::kRow;
  static constexpr float kBelowAll = -0x1p100f;  // finite: a query may see none of the first keys

  Lane<kRow> lane;
  float scale;                  // of the scores, times log2 e
  float out[S][DP / 8][4];      // Σ p v
  float base[S][2], sum[S][2];  // of query g and g + 8: what exponentials are relative to, their sum (this
                                // lane's keys); in units of log 2

  __device__ ForwardWarp(unsigned thread, float factor) : lane(thread), scale(factor), out{}, sum{} {
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) base[i / 2][i % 2] = kWindow ? kBelowAll : -INFINITY;
  }

  __device__ void products(Scores& s, const T* q, const T* keys) const {
#pragma unroll
    for (int i = 0; i < 16 * S; ++i) s[i / 16][i / 4 % 4][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[S][4], b[4];
#pragma unroll
      for (int m = 0; m < S; ++m) load_matrices(a[m], q + lane.by_row + 16 * m * kRow + 16 * k);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        load_matrices(b, keys + lane.by_column + 16 * n * kRow + 16 * k);
#pragma unroll
        for (int m = 0; m < S; ++m) multiply_add<T>(s[m] + 2 * n, a[m], b);
      }
    }
  }

  /// The largest scaled score of each query among this lane's keys.
  __device__ void find_largest(float (&most)[S][2], const Scores& s) const {
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) {
      const auto& row = s[i / 2];
      const int at = i % 2 * 2;
      float x = row[0][at];
      if (scale >= 0) {
#pragma unroll
        for (int j = 1; j < 8; ++j) x = fmaxf(x, row[j / 2][at + j % 2]);
      } else {
#pragma unroll
        for (int j = 1; j < 8; ++j) x = fminf(x, row[j / 2][at + j % 2]);
      }
      most[i / 2][i % 2] = x * scale;
    }
  }

  /// Brings everything to a base that is the largest score so far.
  __device__ void rebase(const float (&most)[S][2]) {
#pragma unroll
    for (int m = 0; m < S; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float largest = fmaxf(base[m][h], quad_max(most[m][h]));
        const float shrink = exp2_fast(base[m][h] - largest);
        base[m][h] = largest;
        sum[m][h] *= shrink;
#pragma unroll
        for (int n = 0; n < DP / 8; ++n) {
          out[m][n][2 * h] *= shrink;
          out[m][n][2 * h + 1] *= shrink;
        }
      }
  }

  /// Scores become exponentials.
  __device__ void exponentials(Scores& s) {
    float most[S][2];
    find_largest(most, s);
    bool beyond = false;
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) beyond |= most[i / 2][i % 2] > base[i / 2][i % 2] + kHeadroom;
    if (__any_sync(kAllLanes, beyond)) rebase(most);
#pragma unroll
    for (int i = 0; i < 16 * S; ++i) {
      float& x = s[i / 16][i / 4 % 4][i % 4];
      const int h = i / 2 % 2;
      x = exp2_fast(x * scale - base[i / 16][h]);
      sum[i / 16][h] += x;
    }
  }

  /// Zeros what is dropped.
  __device__ void drop(Scores& s, const AttentionMask& mask, int query, int key) const {
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) {
      const uint4 drawn = mask.words(query + 8 * i, key / 8 + lane.t);
      const uint32_t words[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float(&pair)[4] = s[i / 2][n];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (!mask.keeps(words[n], half)) pair[i % 2 * 2 + half] = 0;
      }
    }
  }

  __device__ void weigh(const Scores& s, const T* values) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      uint32_t a[S][4], b[4];
#pragma unroll
      for (int m = 0; m < S; ++m) as_operand<T>(a[m], s[m] + 2 * k);
#pragma unroll
      for (int n = 0; n < DP / 16; ++n) {
        load_matrices_transposed(b, values + lane.by_row + 16 * k * kRow + 16 * n);
#pragma unroll
        for (int m = 0; m < S; ++m) multiply_add<T>(out[m] + 2 * n, a[m], b);
      }
    }
  }

  /// 32 keys from `key` of the row on, of which `valid` are there.  query: g's.
  __device__ void step(const T* q, const T* keys, const T* values, const AttentionMask& mask, int query,
                       int key, int valid, int window) {
    Scores s;
    products(s, q, keys);
    if (valid < Shape::kStep)
#pragma unroll
      for (int m = 0; m < S; ++m) hide_keys(s[m], lane.t, scale, valid);
    if constexpr (kWindow)
#pragma unroll
      for (int m = 0; m < S; ++m) hide_far_keys(s[m], lane.t, scale, query + 16 * m - key, window);
    exponentials(s);
    if constexpr (kDrop) drop(s, mask, query, key);
    weigh(s, values);
  }

  /// y and lse of the warp's queries from `y`, `lse` on, `valid` of which are there.
  __device__ void store(T* y, int stride, float* lse, float kept, int valid, int width, T* scratch) const {
#pragma unroll
    for (int m = 0; m < S; ++m) {
      float factor[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float total = quad_sum(sum[m][h]);
        const int query = 16 * m + 8 * h + lane.g;
        factor[h] = __fdividef(kept, total);
        if (lane.t == 0 && query < valid) lse[query] = (base[m][h] + log2f(total)) * kLn2;
      }
      store_results<kRow>(y + static_cast<int64_t>(16 * m) * stride, stride, out[m], factor[0], factor[1],
                          valid - 16 * m, width, scratch + 16 * m * kRow);
    }
  }
};

template <typename T, int DP, int S, bool kDrop, bool kWindow>
__global__ void __launch_bounds__(ForwardShape<DP, S>::kThreads, ForwardShape<DP, S>::kBlocks)
    attention_forward_kernel(const __grid_constant__ Attention a, const T* __restrict__ qkv,
                             T* __restrict__ y, float* __restrict__ lse) {
  follow();
  using Shape = ForwardShape<DP, S>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kThreads = Shape::kThreads;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop, Shape::kQueries>(a, tile, mask);
  const int length = tile.length, left = length - tile.first, head = tile.head;
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
  const auto fetch = [&](int key) {
    T* const stage = stages + key / kKeys % 2 * 2 * kKeys * kRow;
    const T* const from = from_k + static_cast<int64_t>(key) * in_stride;
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(stage, from, in_stride, length - key, width);
    copy_tile<T, DP, kKeys, kThreads, 32, Order::permuted>(stage + kKeys * kRow, from + out_stride, in_stride,
                                                           length - key, width);
  };
  copy_tile<T, DP, Shape::kQueries, kThreads, 16 * S>(q, head_of(a, qkv, 3, 0, head, tile.begin + tile.first),
                                                      in_stride, left, width);
  const int2 seen = reach<kWindow>(a, tile.first, Shape::kQueries, length, kKeys);
  fetch(seen.x);
  end_copies();
  if (seen.x + kKeys < seen.y) fetch(seen.x + kKeys);
  end_copies();

  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16 * S;
  T* const own_q = q + strip * kRow;
  ForwardWarp<T, DP, S, kDrop, kWindow> warp(threadIdx.x, a.scale * kLog2E);
  for (int key = seen.x; key < seen.y; key += kKeys) {
    wait_for_copies<1>();
    __syncthreads();
    const T* const keys = stages + key / kKeys % 2 * 2 * kKeys * kRow;
    if (strip < left)
#pragma unroll 1
      for (int at = 0; at < min(kKeys, length - key); at += Shape::kStep)
        warp.step(own_q, keys + at * kRow, keys + (kKeys + at) * kRow, mask, tile.first + strip + warp.lane.g,
                  key + at, length - key - at, a.window);
    if (key + 2 * kKeys < seen.y) {
      __syncthreads();  // the tile is used up
      fetch(key + 2 * kKeys);
    }
    end_copies();
  }
  if (strip >= left) return;
  const int token = tile.begin + tile.first + strip;
  warp.store(head_of(a, y, 1, 0, head, token), out_stride, lse + token, kDrop ? kept_scale(a) : 1.f,
             left - strip, width, own_q);
}

template <typename T, int DP, int S, bool kWindow>
void launch_forward(cudaStream_t stream, const Attention& a, const T* qkv, T* y, float* lse) {
  using Shape = ForwardShape<DP, S>;
  const dim3 grid = blocks_of(a, Shape::kQueries);
  if (a.dropout.threshold > 0)
    launch_tiles<attention_forward_kernel<T, DP, S, true, kWindow>>(stream, grid, Shape::kThreads,
                                                                    Shape::kBytes, a, qkv, y, lse);
  else
    launch_tiles<attention_forward_kernel<T, DP, S, false, kWindow>>(stream, grid, Shape::kThreads,
                                                                     Shape::kBytes, a, qkv, y, lse);
}

template <typename T, int DP, bool kWindow = false>
void launch_forward(cudaStream_t stream, const Attention& a, const T* qkv, T* y, float* lse) {
  if constexpr (DP <= 64)
    if (a.tokens > 64 * a.rows)  // rows of 64 tokens would leave half the warps idle
      return launch_forward<T, DP, 2, kWindow>(stream, a, qkv, y, lse);
  launch_forward<T, DP, 1, kWindow>(stream, a, qkv, y, lse);
}

/// One object file per type instantiates it.
template <typename T>
void attention_forward(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse) {
  const T* from = static_cast<const T*>(qkv);
  T* to = static_cast<T*>(y);
  if (a.window > 0) return launch_forward<T, 64, true>(stream, a, from, to, lse);
  if (group_forward_accepts<T>(a)) return launch_group_forward<T>(stream, a, from, to, lse);
  if (a.width <= 32) return launch_forward<T, 32>(stream, a, from, to, lse);
  if (a.width <= 64) return launch_forward<T, 64>(stream, a, from, to, lse);
  if (a.width <= 128) return launch_forward<T, 128>(stream, a, from, to, lse);
  launch_forward<T, 256>(stream, a, from, to, lse);
}

}  // namespace lathe::cuda
