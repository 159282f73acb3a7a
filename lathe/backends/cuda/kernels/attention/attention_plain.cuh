#pragma once
// Attention in f32 arithmetic: blocks of 16 × 16 threads, thread (y, x) with the elements (y + 16 i, x + 16
// j) of what its block computes.
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"

namespace lathe::cuda {

constexpr int kSide = 16, kPlainThreads = kSide * kSide;

/// Tiles of 64 tokens for D ≤ 64, of 32 for D ≤ 128, of 16 for D ≤ 256: `kPer` = 4, 2, 1 tokens and 4, 8, 16
/// columns per thread.  Rows of tiles have an odd length, so that 16 of them lie in different banks.
template <int kPer>
struct PlainShape {
  static constexpr int kTokens = kSide * kPer, kColumns = 16 / kPer;
  static constexpr int kRow = kSide * kColumns + 1, kScoreRow = kTokens + 1,
                       kMaskBytes = kTokens * kTokens / 8;
  static constexpr size_t bytes(int tiles, int score_tiles) {
    return static_cast<size_t>(tiles * kTokens * kRow + score_tiles * kTokens * kScoreRow) * sizeof(float) +
           kMaskBytes;
  }
  using Scores = float[kPer][kPer];
  using Columns = float[kPer][kColumns];
};

__device__ inline int plain_x() { return static_cast<int>(threadIdx.x % kSide); }
__device__ inline int plain_y() { return static_cast<int>(threadIdx.x / kSide); }

/// c += A · B over `depth`.  a: the thread's first row, k contiguous, its rows kARow apart.  b: the thread's
/// first column, its columns kBColumn apart, k by kBStep.
template <int kARow, int kBColumn, int kBStep, int M, int N>
__device__ inline void multiply_add(float (&c)[M][N], const float* a, const float* b, int depth) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    float x[M];
#pragma unroll
    for (int i = 0; i < M; ++i) x[i] = a[i * kARow + k];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float w = b[j * kBColumn + k * kBStep];
#pragma unroll
      for (int i = 0; i < M; ++i) c[i][j] += x[i] * w;
    }
  }
}

/// s = rows · columnsᵀ of two tiles of tokens.
template <int kPer>
__device__ inline void token_products(typename PlainShape<kPer>::Scores& s, const float* rows,
                                      const float* columns, int width) {
  constexpr int kRow = PlainShape<kPer>::kRow;
#pragma unroll
  for (int i = 0; i < kPer * kPer; ++i) s[i / kPer][i % kPer] = 0;
  multiply_add<kSide * kRow, kSide * kRow, 1>(s, rows + plain_y() * kRow, columns + plain_x() * kRow, width);
}

/// c += S · tokens: S [kTokens, depth] in shared memory, a tile of tokens.
template <int kPer>
__device__ inline void weigh_tokens(typename PlainShape<kPer>::Columns& c, const float* s,
                                    const float* tokens, int depth) {
  using Shape = PlainShape<kPer>;
  multiply_add<kSide * Shape::kScoreRow, kSide, Shape::kRow>(c, s + plain_y() * Shape::kScoreRow,
                                                             tokens + plain_x(), depth);
}

/// Tokens of one head, `width` elements each, into a tile; zeros after the `valid` ones and after `width`.
template <int kPer, typename T>
__device__ inline void load_tokens(float* to, const T* from, int stride, int valid, int width) {
  using Shape = PlainShape<kPer>;
  constexpr int kColumns = Shape::kRow - 1;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kTokens * kColumns; i += kPlainThreads) {
    const int row = i / kColumns, column = i % kColumns;
    to[row * Shape::kRow + column] =
        row < valid && column < width ? to_float(from[static_cast<int64_t>(row) * stride + column]) : 0.f;
  }
}

/// Stores what a thread holds, times factor[i].
template <int kPer, typename T>
__device__ inline void store_tokens(T* to, int stride, const typename PlainShape<kPer>::Columns& c,
                                    const float (&factor)[kPer], int valid, int width) {
#pragma unroll
  for (int i = 0; i < kPer; ++i)
#pragma unroll
    for (int j = 0; j < PlainShape<kPer>::kColumns; ++j) {
      const int row = plain_y() + kSide * i, column = plain_x() + kSide * j;
      if (row < valid && column < width)
        to[static_cast<int64_t>(row) * stride + column] = from_float<T>(c[i][j] * factor[i]);
    }
}

/// A tile's decisions, one bit per query and key, in shared memory; nothing where nothing is dropped.
template <int kPer>
struct PlainMask {
  static constexpr int kTokens = PlainShape<kPer>::kTokens;
  uint8_t* bytes;  ///< [query, key / 8]
  float kept;      ///< what a kept element is multiplied by
  bool drops;

  __device__ PlainMask(const Attention& a, void* at)
      : bytes(static_cast<uint8_t*>(at)), kept(kept_scale(a)), drops(a.dropout.threshold > 0) {}
  /// By all threads.  query, key: the first of the tile.
  __device__ void draw(const AttentionMask& mask, int query, int key) const {
    if (!drops) return;
    for (int i = static_cast<int>(threadIdx.x); i < kTokens * kTokens / 8; i += kPlainThreads) {
      const uint4 words = mask.words(query + i / (kTokens / 8), key / 8 + i % (kTokens / 8));
      const uint32_t word[4] = {words.x, words.y, words.z, words.w};
      uint32_t bits = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) bits |= (mask.keeps(word[j / 2], j % 2) ? 1u : 0u) << j;
      bytes[i] = static_cast<uint8_t>(bits);
    }
  }
  __device__ float of(int query, int key) const {
    if (!drops) return 1;
    return (bytes[query * (kTokens / 8) + key / 8] >> (key % 8) & 1) != 0 ? kept : 0.f;
  }
};

/// Which keys of a tile the queries of another see.
struct PlainWindow {
  int window;  ///< 0: all
  int ahead;   ///< from the first key to the first query

  __device__ bool sees(int query, int key) const { return window == 0 || abs(query + ahead - key) <= window; }
};
/// The first tile of keys that queries from `query` on see, and where the last one that a tile of them sees
/// ends.  The same holds for the queries that see keys.
template <int kTokens>
__device__ inline int first_seen(const Attention& a, int query) {
  return a.window == 0 || query <= a.window ? 0 : (query - a.window) / kTokens * kTokens;
}
template <int kTokens>
__device__ inline int end_seen(const Attention& a, int query, int length) {
  return a.window == 0 ? length : min(length, query + kTokens + a.window);
}

/// Over the 16 threads that share the rows of a tile.
template <typename F>
__device__ inline float reduce_side(float x, F f) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

}  // namespace lathe::cuda
