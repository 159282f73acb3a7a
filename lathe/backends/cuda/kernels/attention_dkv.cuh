#pragma once
// Backward attention on the tensor cores, gradients of keys and values: one block per head and tile of keys
// of a row; the queries pass through shared memory in tiles, the next one on its way while one is computed.
// A row whose keys are one tile gets the gradients of its queries from the same block.
#include "lathe/backends/cuda/kernels/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention_tile.cuh"

namespace lathe::cuda {

/// DP: D rounded up to 32, 64, 128 or 256.  A warp holds the gradients of 16 keys and up to 64 columns; the
/// `kSlices` warps that share its keys compute the same scores.  W warps: 8, or 4 for short rows and DP ≤ 64.
template <int DP, int W>
struct DkvShape {
  static constexpr int kWarps = W, kThreads = kWarps * kWarp, kBlocks = DP < 256 ? 16 / W : 1;
  static constexpr int kColumns = DP < 64 ? DP : 64, kSlices = DP / kColumns, kStrips = kWarps / kSlices;
  static constexpr int kKeys = 16 * kStrips, kQueries = DP <= 64 ? 8 * W : DP == 128 ? 32 : 16;
  static constexpr bool kKeepKeys = DP <= 64;  // as operands in registers
  static constexpr int kRow = DP + kRowPad, kScoreRow = kQueries + kRowPad;
  /// In shared memory: keys, values; twice queries, dy, lse and delta; gradients of scores [kKeys, kQueries].
  static constexpr int kStageBytes = kQueries * (2 * kRow * 2 + 8);
  static constexpr size_t kBytes = 2 * kKeys * kRow * 2 + 2 * kStageBytes + kKeys * kScoreRow * 2;
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

/// Queries in shared memory, and which of the row the first one is.
template <typename T, int DP, int W>
struct QueryStage {
  using Shape = DkvShape<DP, W>;
  T *q, *dy;
  float *lse, *delta;
  int query;

  __device__ QueryStage(unsigned char* at, int first)
      : q(reinterpret_cast<T*>(at)),
        dy(q + Shape::kQueries * Shape::kRow),
        lse(reinterpret_cast<float*>(dy + Shape::kQueries * Shape::kRow)),
        delta(lse + Shape::kQueries),
        query(first) {}
  __device__ void advance(int count) {
    q += count * Shape::kRow;
    dy += count * Shape::kRow;
    lse += count;
    delta += count;
    query += count;
  }
};

/// One warp: 16 keys, kColumns columns.  Scores: [16 keys, 16 queries], two results.
template <typename T, int DP, int W, bool kDrop>
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

  /// rows · columnsᵀ, 16 of each; `rows` are the keys that were kept if kKept.
  template <bool kKept>
  __device__ void products(float (&s)[2][4], const T* rows, const T* columns, const Lane<kRow>& lane) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = 0;
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

  /// The words that decide on 16 queries and 16 keys: w[2 n + h] on queries 8 n + 2 t (lower half) and + 1,
  /// key g + 8 h.  Lane 4 g + t draws for query g + 8 (t / 2) and keys from 8 (t % 2) on.
  __device__ static void draw(uint32_t (&w)[4], const AttentionMask& mask, int query, int key,
                              const Lane<kRow>& lane) {
    const uint4 drawn = mask.words(query + lane.g + lane.t / 2 * 8, key / 8 + lane.t % 2);
    w[0] = drawn.x, w[1] = drawn.y, w[2] = drawn.z, w[3] = drawn.w;
    transpose_quad(w);
#pragma unroll
    for (int s = 0; s < 4; ++s) w[s] = transpose_matrix(w[s]);
  }

  /// Scores become probabilities, negative where dropped.
  __device__ static void probabilities(float (&s)[2][4], const QueryStage<T, DP, W>& stage, float scale,
                                       const AttentionMask& mask, int key, const Lane<kRow>& lane) {
    uint32_t w[4];
    if constexpr (kDrop) draw(w, mask, stage.query, key, lane);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 lse = *reinterpret_cast<const float2*>(stage.lse + 8 * n + 2 * lane.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = exp2_fast(s[n][i] * scale - (i % 2 == 0 ? lse.x : lse.y) * kLog2E);
        if (kDrop && !mask.keeps(w[2 * n + i / 2], i % 2)) s[n][i] = -s[n][i];
      }
    }
  }
  __device__ static bool dropped(float p) { return kDrop && __float_as_int(p) < 0; }

  /// Probabilities p and dy·v, in dp, become gradients of scores in dp.
  __device__ static void gradients(const float (&p)[2][4], float (&dp)[2][4],
                                   const QueryStage<T, DP, W>& stage, float kept, const Lane<kRow>& lane) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 delta = *reinterpret_cast<const float2*>(stage.delta + 8 * n + 2 * lane.t);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float masked = dropped(p[n][i]) ? 0.f : dp[n][i] * kept;
        dp[n][i] = fabsf(p[n][i]) * (masked - (i % 2 == 0 ? delta.x : delta.y));
      }
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

  /// The first 16 queries of a stage.  k, v: of the warp's first key, which is `key` of the row; `valid` keys
  /// are there from it on.  The gradients of scores become ds [key, query], 0 behind the valid keys, if
  /// `keep`.
  __device__ void step(const QueryStage<T, DP, W>& stage, const T* k, const T* v, T* ds, bool keep,
                       int column, const Attention& a, const AttentionMask& mask, int key, int valid) {
    const Lane<kRow> lane(fresh_thread());
    float p[2][4], dp[2][4];
    uint32_t operand[4];
    products<Shape::kKeepKeys>(p, k, stage.q, lane);
    probabilities(p, stage, a.scale * kLog2E, mask, key, lane);
#pragma unroll
    for (int i = 0; i < 8; ++i) dp[i / 4][i % 4] = dropped(p[i / 4][i % 4]) ? 0.f : p[i / 4][i % 4];
    as_operand<T>(operand, dp);
    add(dv, operand, stage.dy + column, lane);
    products<false>(dp, v, stage.dy, lane);
    gradients(p, dp, stage, kDrop ? kept_scale(a) : 1.f, lane);
    as_operand<T>(operand, dp);
    add(dk, operand, stage.q + column, lane);
    if (!keep) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane.g + i % 2 * 8;
      *reinterpret_cast<uint32_t*>(ds + row * Shape::kScoreRow + i / 2 * 8 + 2 * lane.t) =
          row < valid ? operand[i] : 0u;
    }
  }
};

/// dq of the queries of a stage, by all warps: each takes 16 queries and 32 columns.  ds: [kKeys, kQueries].
template <typename T, int DP, int W>
__device__ inline void store_dq(const Attention& a, const T* ds, const T* keys, int valid_keys, T* dq,
                                int stride, int valid_queries) {
  using Shape = DkvShape<DP, W>;
  constexpr int kRow = Shape::kRow, kScoreRow = Shape::kScoreRow, kParts = Shape::kQueries / 16;
  const int warp = static_cast<int>(fresh_thread() / kWarp), width = static_cast<int>(a.width);
  const int query = warp % kParts * 16, column = warp / kParts * 32;
  if (query >= valid_queries || column >= width) return;
  const Lane<kRow> of_keys(fresh_thread());
  const Lane<kScoreRow> of_scores(fresh_thread());
  float sums[4][4] = {};
#pragma unroll 2
  for (int k = 0; k < valid_keys; k += 16) {
    uint32_t operand[4], b[4];
    load_matrices_transposed(operand, ds + of_scores.by_column + k * kScoreRow + query);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      load_matrices_transposed(b, keys + of_keys.by_row + k * kRow + column + 16 * n);
      multiply_add<T>(sums + 2 * n, operand, b);
    }
  }
  store_results<T, 4>(dq + static_cast<int64_t>(query) * stride + column, stride, sums, a.scale, a.scale,
                      valid_queries - query, width - column);
}

template <typename T, int DP, int W, bool kDrop>
__global__ void __launch_bounds__(DkvShape<DP, W>::kThreads, DkvShape<DP, W>::kBlocks)
    attention_dkv_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy,
                         const T* __restrict__ qkv, const float* __restrict__ lse,
                         const float* __restrict__ delta, T* __restrict__ dqkv) {
  using Shape = DkvShape<DP, W>;
  constexpr int kRow = Shape::kRow, kKeys = Shape::kKeys, kQueries = Shape::kQueries;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop>(a, kKeys, tile, mask);
  const int left = tile.length - tile.first, head = static_cast<int>(blockIdx.y);
  if (left <= 0) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  if (tile.row == a.rows) {
    for (int part = 0; part < 3; ++part)
      clear_tokens(head_of(a, dqkv, 3, part, head, tile.begin + tile.first), stride, min(left, kKeys), width);
    return;
  }

  extern __shared__ __align__(16) unsigned char shared[];
  T* const k = reinterpret_cast<T*>(shared);
  T* const v = k + kKeys * kRow;
  unsigned char* const stages = reinterpret_cast<unsigned char*>(v + kKeys * kRow);
  T* const ds = reinterpret_cast<T*>(stages + 2 * Shape::kStageBytes);
  const auto stage_of = [&](int query) {
    return QueryStage<T, DP, W>(stages + query / kQueries % 2 * Shape::kStageBytes, query);
  };
  const auto fetch = [&](int query) {
    const QueryStage<T, DP, W> to = stage_of(query);
    const int token = tile.begin + query, valid = tile.length - query;
    copy_tile<T, DP, kQueries, Shape::kThreads, 16>(to.q, head_of(a, qkv, 3, 0, head, token), stride, valid,
                                                    width);
    copy_tile<T, DP, kQueries, Shape::kThreads, 16>(to.dy, head_of(a, dy, 1, 0, head, token), out_stride,
                                                    valid, width);
    const int i = static_cast<int>(fresh_thread() % kQueries),
              which = static_cast<int>(fresh_thread() / kQueries);
    const int64_t from = static_cast<int64_t>(head) * a.tokens + token + (i < valid ? i : 0);
    if (which == 0) copy4(to.lse + i, lse + from, i < valid);
    if (which == 1) copy4(to.delta + i, delta + from, i < valid);
  };
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin + tile.first);
  copy_tile<T, DP, kKeys, Shape::kThreads, 16>(k, from_k, stride, left, width);
  copy_tile<T, DP, kKeys, Shape::kThreads, 16>(v, from_k + out_stride, stride, left, width);
  fetch(0);

  DkvWarp<T, DP, W, kDrop> gradients;
  for (int query = 0; query < tile.length; query += kQueries) {
    wait_for_copies();
    __syncthreads();
    if (query + kQueries < tile.length) fetch(query + kQueries);
    const bool whole = tile.length <= kKeys;  // this block has all keys of the row
    const WarpPlace<DP, W> at;
    if (at.strip < tile.length - tile.first) {
      const T* const own_k = k + at.strip * kRow;
      if (query == 0) gradients.keep_keys(own_k);
      QueryStage<T, DP, W> stage = stage_of(query);
      const int end = min(query + kQueries, tile.length);
      T* own_ds = ds + at.strip * Shape::kScoreRow;
#pragma unroll 1
      for (; stage.query < end; stage.advance(16), own_ds += 16)
        gradients.step(stage, own_k, own_k + kKeys * kRow, own_ds, whole && at.column == 0, at.column, a,
                       mask, tile.first + at.strip, tile.length - tile.first - at.strip);
    }
    if (!whole) continue;
    __syncthreads();
    store_dq<T, DP, W>(a, ds, k, tile.length, head_of(a, dqkv, 3, 0, head, tile.begin + query), stride,
                       tile.length - query);
  }
  const WarpPlace<DP, W> at;
  const int valid = tile.length - tile.first - at.strip;
  if (valid <= 0 || at.column >= width) return;
  T* const to = head_of(a, dqkv, 3, 1, head, tile.begin + tile.first + at.strip) + at.column;
  const float kept = kDrop ? kept_scale(a) : 1.f;
  store_results<T, Shape::kColumns / 8>(to, stride, gradients.dk, a.scale, a.scale, valid, width - at.column);
  store_results<T, Shape::kColumns / 8>(to + out_stride, stride, gradients.dv, kept, kept, valid,
                                        width - at.column);
}

}  // namespace lathe::cuda
