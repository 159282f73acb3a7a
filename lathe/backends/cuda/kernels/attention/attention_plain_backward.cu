#include <type_traits>

#include "lathe/backends/cuda/kernels/attention/attention_plain.cuh"

namespace lathe::cuda {
namespace {

/// The tiles of a backward block in shared memory.  `own`: of the tokens whose gradients it computes
/// (queries: q and dy; keys: k and v), `other`: those that pass by.
template <int kPer>
struct PlainTiles {
  using Shape = PlainShape<kPer>;
  static constexpr int kTile = Shape::kTokens * Shape::kRow, kScores = Shape::kTokens * Shape::kScoreRow;
  static constexpr size_t kBytes = Shape::bytes(4, 2);
  float *own[2], *other[2], *p, *ds;
  void* mask;

  __device__ explicit PlainTiles(float* at)
      : own{at, at + kTile},
        other{at + 2 * kTile, at + 3 * kTile},
        p(at + 4 * kTile),
        ds(p + kScores),
        mask(ds + kScores) {}
};

/// exp(score − lse), of a query's lse.
__device__ inline float probability(float score, float scale, float lse) {
  return exp2f(score * (scale * kLog2E) - lse * kLog2E);
}

/// Gradients of keys and values: rows of tiles of scores are keys.
template <typename T, int kPer>
__global__ void __launch_bounds__(kPlainThreads, 2)
    plain_dkv_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy, const T* __restrict__ qkv,
                     const float* __restrict__ lse, const float* __restrict__ delta, T* __restrict__ dqkv) {
  follow();
  using Shape = PlainShape<kPer>;
  constexpr int kTokens = Shape::kTokens;
  __shared__ Tile tile;
  __shared__ AttentionMask words;
  share_tile<true, kTokens>(a, tile, words);
  const int left = tile.length - tile.first, head = tile.head, token = tile.begin + tile.first;
  if (left <= 0) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  if (tile.row == a.rows) {
    for (int part = 0; part < 3; ++part)
      clear_tokens(head_of(a, dqkv, 3, part, head, token), stride, min(left, kTokens), width);
    return;
  }
  extern __shared__ float memory[];
  const PlainTiles<kPer> tiles(memory);
  const PlainMask<kPer> mask(a, tiles.mask);
  for (int part = 0; part < 2; ++part)
    load_tokens<kPer>(tiles.own[part], head_of(a, qkv, 3, 1 + part, head, token), stride, left, width);
  typename Shape::Columns dk = {}, dv = {};
  const int end = end_seen<kTokens>(a, tile.first, tile.length);
  for (int query = first_seen<kTokens>(a, tile.first); query < end; query += kTokens) {
    const PlainWindow window{a.window, query - tile.first};
    const int valid = tile.length - query;
    const int64_t at = static_cast<int64_t>(head) * a.tokens + tile.begin + query;
    __syncthreads();  // the last tile is used up
    load_tokens<kPer>(tiles.other[0], head_of(a, qkv, 3, 0, head, tile.begin + query), stride, valid, width);
    load_tokens<kPer>(tiles.other[1], head_of(a, dy, 1, 0, head, tile.begin + query), out_stride, valid,
                      width);
    mask.draw(words, query, tile.first);
    __syncthreads();
    typename Shape::Scores s, dp;
    token_products<kPer>(s, tiles.own[0], tiles.other[0], width);
    token_products<kPer>(dp, tiles.own[1], tiles.other[1], width);
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int column = plain_x() + kSide * j;
      const bool there = column < valid;
      const float of_lse = there ? lse[at + column] : 0.f, of_delta = there ? delta[at + column] : 0.f;
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        const int row = plain_y() + kSide * i;
        const bool seen = there && window.sees(column, row);
        const float p = seen ? probability(s[i][j], a.scale, of_lse) : 0.f, kept = mask.of(column, row);
        tiles.p[row * Shape::kScoreRow + column] = p * kept;
        tiles.ds[row * Shape::kScoreRow + column] = p * (dp[i][j] * kept - of_delta);
      }
    }
    __syncwarp();  // a row of p and ds is written and read by 16 lanes of one warp
    weigh_tokens<kPer>(dv, tiles.p, tiles.other[1], min(kTokens, valid));
    weigh_tokens<kPer>(dk, tiles.ds, tiles.other[0], min(kTokens, valid));
  }
  float of_keys[kPer], of_values[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) of_keys[i] = a.scale, of_values[i] = 1;
  store_tokens<kPer>(head_of(a, dqkv, 3, 1, head, token), stride, dk, of_keys, left, width);
  store_tokens<kPer>(head_of(a, dqkv, 3, 2, head, token), stride, dv, of_values, left, width);
}

/// Gradients of queries: rows of tiles of scores are queries.
template <typename T, int kPer>
__global__ void __launch_bounds__(kPlainThreads, 2)
    plain_dq_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy, const T* __restrict__ qkv,
                    const float* __restrict__ lse, const float* __restrict__ delta, T* __restrict__ dqkv) {
  follow();
  using Shape = PlainShape<kPer>;
  constexpr int kTokens = Shape::kTokens;
  __shared__ Tile tile;
  __shared__ AttentionMask words;
  share_tile<true, kTokens>(a, tile, words);
  const int left = tile.length - tile.first, head = tile.head, token = tile.begin + tile.first;
  if (left <= 0 || tile.row == a.rows) return;
  const int width = static_cast<int>(a.width), stride = stride_of(a, 3);
  extern __shared__ float memory[];
  const PlainTiles<kPer> tiles(memory);
  const PlainMask<kPer> mask(a, tiles.mask);
  load_tokens<kPer>(tiles.own[0], head_of(a, qkv, 3, 0, head, token), stride, left, width);
  load_tokens<kPer>(tiles.own[1], head_of(a, dy, 1, 0, head, token), stride_of(a, 1), left, width);
  float of_lse[kPer], of_delta[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const int64_t at = static_cast<int64_t>(head) * a.tokens + token + min(plain_y() + kSide * i, left - 1);
    of_lse[i] = lse[at], of_delta[i] = delta[at];
  }
  typename Shape::Columns dq = {};
  const int end = end_seen<kTokens>(a, tile.first, tile.length);
  for (int key = first_seen<kTokens>(a, tile.first); key < end; key += kTokens) {
    const PlainWindow window{a.window, tile.first - key};
    const int valid = tile.length - key;
    __syncthreads();  // the last tile is used up
    for (int part = 0; part < 2; ++part)
      load_tokens<kPer>(tiles.other[part], head_of(a, qkv, 3, 1 + part, head, tile.begin + key), stride,
                        valid, width);
    mask.draw(words, tile.first, key);
    __syncthreads();
    typename Shape::Scores s, dp;
    token_products<kPer>(s, tiles.own[0], tiles.other[0], width);
    token_products<kPer>(dp, tiles.own[1], tiles.other[1], width);
#pragma unroll
    for (int i = 0; i < kPer; ++i)
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        const int row = plain_y() + kSide * i, column = plain_x() + kSide * j;
        const float p = window.sees(row, column) ? probability(s[i][j], a.scale, of_lse[i]) : 0.f;
        tiles.ds[row * Shape::kScoreRow + column] = p * (dp[i][j] * mask.of(row, column) - of_delta[i]);
      }
    __syncwarp();  // a row of ds is written and read by 16 lanes of one warp
    weigh_tokens<kPer>(dq, tiles.ds, tiles.other[0], min(kTokens, valid));
  }
  float factor[kPer];
#pragma unroll
  for (float& x : factor) x = a.scale;
  store_tokens<kPer>(head_of(a, dqkv, 3, 0, head, token), stride, dq, factor, left, width);
}

template <typename T, int kPer>
void launch(cudaStream_t stream, const Attention& a, const T* dy, const T* qkv, const float* lse,
            const float* delta, T* dqkv) {
  const dim3 grid = blocks_of(a, PlainShape<kPer>::kTokens);
  constexpr size_t kBytes = PlainTiles<kPer>::kBytes;
  launch_tiles<plain_dkv_kernel<T, kPer>>(stream, grid, kPlainThreads, kBytes, a, dy, qkv, lse, delta, dqkv);
  launch_tiles<plain_dq_kernel<T, kPer>>(stream, grid, kPlainThreads, kBytes, a, dy, qkv, lse, delta, dqkv);
}

}  // namespace

void attention_bwd_plain(cudaStream_t stream, const Attention& a, const void* dy, const void* qkv,
                         const void* y, const float* lse, void* dqkv, void* workspace) {
  float* delta = static_cast<float*>(workspace);
  attention_delta(stream, a, dy, y, delta);
  with_type(a.t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T *g = static_cast<const T*>(dy), *from = static_cast<const T*>(qkv);
    T* to = static_cast<T*>(dqkv);
    if (a.width <= 64) return launch<T, 4>(stream, a, g, from, lse, delta, to);
    if (a.width <= 128) return launch<T, 2>(stream, a, g, from, lse, delta, to);
    launch<T, 1>(stream, a, g, from, lse, delta, to);
  });
}

}  // namespace lathe::cuda
