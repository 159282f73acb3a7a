#pragma once
// Backward attention on the tensor cores, gradients of keys and values: one block per head and tile of keys
// of a row; the queries pass through shared memory in tiles, the next one on its way while one is computed.
// A row whose keys are one tile gets the gradients of its queries from the same block.  Rows of up to `done`
// tokens and tokens of no row are skipped if `done` > 0: attention_ring.cuh computes them.
#include "lathe/backends/cuda/kernels/attention/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"

namespace lathe::cuda {

/// DP: D rounded up to 32, 64, 128 or 256.  A warp holds the gradients of 16 keys and up to 64 columns; the
/// `kSlices` warps that share its keys compute the same scores.  W warps: 8, or 4 for short rows and DP ≤ 64.
template <int DP, int W>
struct DkvShape {
  static constexpr int kWarps = W, kThreads = kWarps * kWarp, kBlocks = DP < 256 ? 16 / W : 1;
  static constexpr int kColumns = DP < 64 ? DP : 64, kSlices = DP / kColumns, kStrips = kWarps / kSlices;
  static constexpr int kKeys = 16 * kStrips, kQueries = kKeys / 2;  // of a tile
  static constexpr bool kKeepKeys = DP <= 64;                       // as operands in registers
  static constexpr int kRow = DP + kRowPad, kScoreRow = kKeys + kRowPad;
  /// In shared memory: keys, values; of two tiles of queries q, dy, lse and delta; and their y or, of a row
  /// that has no more queries than these, gradients of scores [kKeys, kKeys].
  static constexpr int kTileBytes = kKeys * kRow * 2;
  static constexpr int kScoreBytes = kKeys * kScoreRow * 2;
  static constexpr size_t kBytes =
      4 * kTileBytes + 2 * kKeys * sizeof(float) + (kScoreBytes > kTileBytes ? kScoreBytes : kTileBytes);
};

template <typename T, int DP, int W>
struct DkvMemory {
  using Shape = DkvShape<DP, W>;
  T *k, *v;       ///< [kKeys], Order::swapped
  T *q, *dy, *y;  ///< [2 kQueries] = [kKeys], a ring
  float* lse;     ///< in units of log 2
  float* delta;   ///< −(1 − p) Σ dy∘y
  T* ds;          ///< where y was

  __device__ explicit DkvMemory(unsigned char* at)
      : k(reinterpret_cast<T*>(at)),
        v(k + Shape::kTileBytes / 2),
        q(v + Shape::kTileBytes / 2),
        dy(q + Shape::kTileBytes / 2),
        y(dy + Shape::kTileBytes / 2 + 4 * Shape::kKeys),
        lse(reinterpret_cast<float*>(dy + Shape::kTileBytes / 2)),
        delta(lse + Shape::kKeys),
        ds(y) {}
};

/// The first key of a tile and the first column that the calling warp holds.
template <int DP, int W>
struct WarpPlace {
  int strip, column;

  __device__ WarpPlace() {
    const int warp = static_cast<int>(fresh_thread() / kWarp);
    strip = warp % DkvShape<DP, W>::kStrips * 16;
    column = warp / DkvShape<DP, W>::kStrips * DkvShape<DP, W>::kColumns;
  }
};

/// The words that decide on 16 queries and 16 keys in Order::swapped: w[2 n + h] on queries 8 n + 2 t (lower
/// half) and + 1, row g + 8 h.  Lane 4 g + t draws for query g + 8 (t / 2) and keys from 8 (t % 2) on;
/// transposed, lane 4 g + t has in word s queries 2 t and 2 t + 1, + 8 if g ≥ 4, and key 8 (g / 2 % 2) + 2 s
/// + g % 2.
__device__ inline void draw_transposed(uint32_t (&w)[4], const AttentionMask& mask, int query, int key, int g,
                                       int t) {
  const uint4 drawn = mask.words(query + g + t / 2 * 8, key / 8 + t % 2);
  const uint32_t own[4] = {transpose_matrix(drawn.x), transpose_matrix(drawn.y), transpose_matrix(drawn.z),
                           transpose_matrix(drawn.w)};
  const bool upper = g >= 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t got = __shfl_xor_sync(kAllLanes, upper ? own[h] : own[2 + h], 16);
    w[h] = upper ? got : own[h];
    w[2 + h] = upper ? own[2 + h] : got;
  }
}

/// One warp: 16 keys, kColumns columns.  Scores: [16 keys, 16 queries], two results.
template <typename T, int DP, int W, bool kDrop, bool kWindow>
struct DkvWarp {
  using Shape = DkvShape<DP, W>;
  static constexpr int kRow = Shape::kRow;

  float dk[Shape::kColumns / 8][4] = {}, dv[Shape::kColumns / 8][4] = {};
  uint32_t keys[Shape::kKeepKeys ? DP / 16 : 1][4];

  __device__ void keep_keys(const T* k) {
    if constexpr (Shape::kKeepKeys) {
      const Lane<kRow> lane(fresh_thread());
#pragma unroll
      for (int i = 0; i < DP / 16; ++i) load_matrices(keys[i], k + lane.by_row + 16 * i);
    }
  }

  /// s += rows · columnsᵀ, 16 of each; `rows` are the keys that were kept if kKept.
  template <bool kKept>
  __device__ void products(float (&s)[2][4], const T* rows, const T* columns, const Lane<kRow>& lane) const {
#pragma unroll
    for (int k = 0; k < DP / 16; ++k) {
      uint32_t a[4], b[4];
      load_matrices(b, columns + lane.by_column + 16 * k);
      if constexpr (kKept) {
        multiply_add<T>(s, keys[k], b);
      } else {
        load_matrices(a, rows + lane.by_row + 16 * k);
        multiply_add<T>(s, a, b);
      }
    }
  }

  /// Scores s and dy·v, in ds, become probabilities, 0 where dropped, and gradients of scores.  ahead: from
  /// the first key to the first query.
  __device__ static void gradients(float (&s)[2][4], float (&ds)[2][4], const uint32_t (&w)[4], float scale,
                                   const AttentionMask& mask, const float2 (&lse)[2],
                                   const float2 (&delta)[2], const Lane<kRow>& lane, int ahead, int window) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int n = i / 4;
      float &p = s[n][i % 4], &d = ds[n][i % 4];
      p = exp2_fast(p * scale - (i % 2 == 0 ? lse[n].x : lse[n].y));
      if (kWindow && abs(ahead + 8 * n + 2 * lane.t + i % 2 - swapped(lane.g + i / 2 % 2 * 8)) > window)
        p = 0;
      const float drawn = p * (i % 2 == 0 ? delta[n].x : delta[n].y);
      if (kDrop && !mask.keeps(w[i / 2], i % 2)) p = 0;
      d = p * d + drawn;
    }
  }

  /// sums += A · rows: A [16 keys, 16 queries], kColumns columns of 16 queries
  __device__ static void add(float (&sums)[Shape::kColumns / 8][4], const uint32_t (&a)[4], const T* rows,
                             const Lane<kRow>& lane) {
#pragma unroll
    for (int n = 0; n < Shape::kColumns / 16; ++n) {
      uint32_t b[4];
      load_matrices_transposed(b, rows + lane.by_row + 16 * n);
      multiply_add<T>(sums + 2 * n, a, b);
    }
  }

  /// Queries in rows `at` … + 15 of the ring, which are those from `query` of the row on.  k, v: of the
  /// warp's first key, which is `key` of the row; `valid` keys are there from it on.  The gradients of scores
  /// become ds [key, query], 0 after the valid keys, if `keep`.
  __device__ void step(const DkvMemory<T, DP, W>& memory, int at, const T* k, const T* v, T* ds, bool keep,
                       int column, float scale, const AttentionMask& mask, int query, int key, int valid,
                       int window) {
    const Lane<kRow> lane(threadIdx.x);
    const T *const q = memory.q + at * kRow, *const dy = memory.dy + at * kRow;
    float2 lse[2], delta[2];
    float p[2][4], dp[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      lse[n] = *reinterpret_cast<const float2*>(memory.lse + at + 8 * n + 2 * lane.t);
      delta[n] = *reinterpret_cast<const float2*>(memory.delta + at + 8 * n + 2 * lane.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) p[n][i] = dp[n][i] = 0;
    }
    products<Shape::kKeepKeys>(p, k, q, lane);
    products<false>(dp, v, dy, lane);
    uint32_t w[4], operand[4];
    if constexpr (kDrop) draw_transposed(w, mask, query, key, lane.g, lane.t);
    gradients(p, dp, w, scale, mask, lse, delta, lane, query - key, window);
    as_operand<T>(operand, p);
    add(dv, operand, dy + column, lane);
    as_operand<T>(operand, dp);
    add(dk, operand, q + column, lane);
    if (!keep) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane.g + i % 2 * 8;
      *reinterpret_cast<uint32_t*>(ds + row * Shape::kScoreRow + i / 2 * 8 + 2 * lane.t) =
          swapped(row) < valid ? operand[i] : 0u;
    }
  }
};

/// lse and delta of the 16 queries in rows `at` … of the ring, `valid` of which are there, by one warp.  The
/// others get probabilities of 0.
template <typename T, int DP, int W>
__device__ inline void prepare_queries(const DkvMemory<T, DP, W>& memory, int at, int valid, float factor) {
  constexpr int kRow = DkvShape<DP, W>::kRow;
  const int lane = lane_id();
  float sum[2];
  row_products<T, DP>(sum, memory.dy + at * kRow, memory.y + at * kRow);
  if (lane % 4 < 2) memory.delta[at + lane / 4 + lane % 4 * 8] = (lane % 4 == 0 ? sum[0] : sum[1]) * -factor;
  if (lane < 16) memory.lse[at + lane] = lane < valid ? memory.lse[at + lane] * kLog2E : INFINITY;
}

/// dq of all queries of a row, by all warps: each takes 16 · kParts queries and 32 columns.
template <typename T, int DP, int W>
__device__ inline void store_dq(const DkvMemory<T, DP, W>& memory, T* dq, int stride, float factor, int valid,
                                int width) {
  using Shape = DkvShape<DP, W>;
  constexpr int kRow = Shape::kRow, kScoreRow = Shape::kScoreRow, kParts = DP == 32 ? 1 : 2;
  constexpr int kGroups = Shape::kKeys / (16 * kParts);  // of queries
  static_assert(kGroups * DP / 32 == Shape::kWarps);
  const int warp = static_cast<int>(fresh_thread() / kWarp);
  const int query = warp % kGroups * 16 * kParts, column = warp / kGroups * 32;
  if (query >= valid || column >= width) return;
  const Lane<kRow> of_keys(fresh_thread());
  const Lane<kScoreRow> of_scores(fresh_thread());
  float sums[kParts][4][4] = {};
#pragma unroll 2
  for (int k = 0; k < valid; k += 16) {
    uint32_t operand[kParts][4], b[4];
#pragma unroll
    for (int m = 0; m < kParts; ++m)
      load_matrices_transposed(operand[m], memory.ds + of_scores.by_column + k * kScoreRow + query + 16 * m);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      load_matrices_transposed(b, memory.k + of_keys.by_row + k * kRow + column + 16 * n);
#pragma unroll
      for (int m = 0; m < kParts; ++m) multiply_add<T>(sums[m] + 2 * n, operand[m], b);
    }
  }
  constexpr int kScratchRow = 32 + kRowPad;
#pragma unroll
  for (int m = 0; m < kParts; ++m)
    store_results<kScratchRow>(dq + static_cast<int64_t>(query + 16 * m) * stride + column, stride, sums[m],
                               factor, factor, valid - query - 16 * m, width - column,
                               memory.q + warp * 16 * kScratchRow);
}

template <typename T, int DP, int W, bool kDrop, bool kWindow>
__global__ void __launch_bounds__(DkvShape<DP, W>::kThreads, DkvShape<DP, W>::kBlocks)
    attention_dkv_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy,
                         const T* __restrict__ qkv, const T* __restrict__ y, const float* __restrict__ lse,
                         T* __restrict__ dqkv, int done) {
  follow();
  using Shape = DkvShape<DP, W>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kQueries = Shape::kQueries,
                kThreads = Shape::kThreads;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop, kKeys>(a, tile, mask);
  const int left = tile.length - tile.first, head = tile.head;
  if (left <= 0 || tile.length <= done || (done > 0 && tile.row == a.rows)) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  if (tile.row == a.rows) {
    for (int part = 0; part < 3; ++part)
      clear_tokens(head_of(a, dqkv, 3, part, head, tile.begin + tile.first), stride, min(left, kKeys), width);
    return;
  }

  extern __shared__ __align__(16) unsigned char shared[];
  const DkvMemory<T, DP, W> memory(shared);
  const auto fetch = [&](int query) {
    const int at = query % kKeys, token = tile.begin + query, valid = tile.length - query;
    copy_tile<T, DP, kQueries, kThreads, 16>(memory.q + at * kRow, head_of(a, qkv, 3, 0, head, token), stride,
                                             valid, width);
    copy_tile<T, DP, kQueries, kThreads, 16>(memory.dy + at * kRow, head_of(a, dy, 1, 0, head, token),
                                             out_stride, valid, width);
    copy_tile<T, DP, kQueries, kThreads, 16>(memory.y + at * kRow, head_of(a, y, 1, 0, head, token),
                                             out_stride, valid, width);
    const int i = static_cast<int>(fresh_thread());
    if (i < kQueries)
      copy4(memory.lse + at + i, lse + static_cast<int64_t>(head) * a.tokens + token + min(i, valid - 1));
  };
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin + tile.first);
  copy_tile<T, DP, kKeys, kThreads, 16, Order::swapped>(memory.k, from_k, stride, left, width);
  copy_tile<T, DP, kKeys, kThreads, 16, Order::swapped>(memory.v, from_k + out_stride, stride, left, width);
  const int2 seen = reach<kWindow>(a, tile.first, kKeys, tile.length, kQueries);
  fetch(seen.x);
  end_copies();
  if (seen.x + kQueries < seen.y) fetch(seen.x + kQueries);
  end_copies();

  DkvWarp<T, DP, W, kDrop, kWindow> gradients;
  // Whether this block has all keys of the row; then it takes all queries at once.  Read anew each time.
  const auto whole = [&] { return tile.length <= kKeys; };
  for (int query = seen.x; query < seen.y; query += whole() ? kKeys : kQueries) {
    if (whole())
      wait_for_copies<0>();
    else
      wait_for_copies<1>();
    __syncthreads();
    const int end = min(query + (whole() ? kKeys : kQueries), tile.length);
    const int own = static_cast<int>(fresh_thread() / kWarp) * 16;
    if (query + own < end)
      prepare_queries(memory, (query + own) % kKeys, end - query - own, kDrop ? kept_part(a) : 1.f);
    __syncthreads();
    const WarpPlace<DP, W> at;
    if (at.strip < left) {
      const T* const own_k = memory.k + at.strip * kRow;
      if (query == seen.x) gradients.keep_keys(own_k);
#pragma unroll 1
      for (int i = query; i < end; i += 16)
        gradients.step(memory, i % kKeys, own_k, memory.v + at.strip * kRow,
                       memory.ds + at.strip * Shape::kScoreRow + i % kKeys, whole() && at.column == 0,
                       at.column, a.scale * kLog2E, mask, i, tile.first + at.strip, left - at.strip,
                       a.window);
    }
    if (query + 2 * kQueries < seen.y) {
      __syncthreads();  // the tile is used up
      fetch(query + 2 * kQueries);
    }
    end_copies();
  }
  if (whole() || Shape::kSlices > 1) __syncthreads();  // ds is written, v read
  const float kept = kDrop ? kept_scale(a) : 1.f, factor = a.scale * kept;
  const WarpPlace<DP, W> at;
  if (at.strip < left && at.column < width) {
    T* const to = head_of(a, dqkv, 3, 1, head, tile.begin + tile.first + at.strip) + at.column;
    T* const scratch = memory.v + at.strip * kRow + at.column;
    store_results<kRow, true>(to, stride, gradients.dk, factor, factor, left - at.strip, width - at.column,
                              scratch);
    store_results<kRow, true>(to + out_stride, stride, gradients.dv, kept, kept, left - at.strip,
                              width - at.column, scratch);
  }
  if (whole()) store_dq(memory, head_of(a, dqkv, 3, 0, head, tile.begin), stride, factor, tile.length, width);
}

}  // namespace lathe::cuda
