#include <cfloat>
#include <type_traits>

#include "lathe/backends/cuda/kernels/attention/attention_plain.cuh"

namespace lathe::cuda {
namespace {

/// Softmax over the keys seen so far.
template <int kPer>
struct PlainForward {
  using Shape = PlainShape<kPer>;
  typename Shape::Columns out = {};
  float largest[kPer], sum[kPer] = {};  // in units of log 2; the sum of this thread's keys

  __device__ PlainForward() {
    for (float& x : largest) x = -FLT_MAX;  // a tile without a key that is seen gives 0, not NaN
  }
  /// Scores become exponentials, masked, in p; of the `valid` keys those that are seen.
  __device__ void exponentials(const typename Shape::Scores& s, float scale, const PlainMask<kPer>& mask,
                               const PlainWindow& window, float* p, int valid) {
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int query = plain_y() + kSide * i;
      const auto seen = [&](int key) { return key < valid && window.sees(query, key); };
      float most = largest[i];
#pragma unroll
      for (int j = 0; j < kPer; ++j)
        if (seen(plain_x() + kSide * j)) most = fmaxf(most, s[i][j] * scale);
      most = reduce_side(most, [](float x, float y) { return fmaxf(x, y); });
      const float shrink = exp2f(largest[i] - most);
      largest[i] = most;
      sum[i] *= shrink;
#pragma unroll
      for (float& x : out[i]) x *= shrink;
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        const int key = plain_x() + kSide * j;
        const float e = seen(key) ? exp2f(s[i][j] * scale - most) : 0.f;
        sum[i] += e;
        p[query * Shape::kScoreRow + key] = e * mask.of(query, key);
      }
    }
  }
};

template <typename T, int kPer>
__global__ void __launch_bounds__(kPlainThreads, 2)
    plain_forward_kernel(const __grid_constant__ Attention a, const T* __restrict__ qkv, T* __restrict__ y,
                         float* __restrict__ lse) {
  follow();
  using Shape = PlainShape<kPer>;
  constexpr int kTokens = Shape::kTokens;
  __shared__ Tile tile;
  __shared__ AttentionMask words;
  share_tile<true, kTokens>(a, tile, words);
  const int left = tile.length - tile.first, head = tile.head, token = tile.begin + tile.first;
  if (left <= 0) return;
  const int width = static_cast<int>(a.width), in_stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  lse += static_cast<int64_t>(head) * a.tokens + token;
  if (tile.row == a.rows) {
    clear_tokens(head_of(a, y, 1, 0, head, token), out_stride, min(left, kTokens), width);
    clear_tokens(lse, 1, min(left, kTokens), 1);
    return;
  }
  extern __shared__ float tiles[];
  float *q = tiles, *k = q + kTokens * Shape::kRow, *v = k + kTokens * Shape::kRow,
        *p = v + kTokens * Shape::kRow;
  const PlainMask<kPer> mask(a, p + kTokens * Shape::kScoreRow);
  load_tokens<kPer>(q, head_of(a, qkv, 3, 0, head, token), in_stride, left, width);
  PlainForward<kPer> state;
  const int end = end_seen<kTokens>(a, tile.first, tile.length);
  for (int key = first_seen<kTokens>(a, tile.first); key < end; key += kTokens) {
    const int valid = tile.length - key;
    __syncthreads();  // the last tile is used up
    load_tokens<kPer>(k, head_of(a, qkv, 3, 1, head, tile.begin + key), in_stride, valid, width);
    load_tokens<kPer>(v, head_of(a, qkv, 3, 2, head, tile.begin + key), in_stride, valid, width);
    mask.draw(words, tile.first, key);
    __syncthreads();
    typename Shape::Scores s;
    token_products<kPer>(s, q, k, width);
    state.exponentials(s, a.scale * kLog2E, mask, {a.window, tile.first - key}, p, valid);
    __syncwarp();  // a row of p is written and read by 16 lanes of one warp
    weigh_tokens<kPer>(state.out, p, v, min(kTokens, valid));
  }
  float factor[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const float sum = reduce_side(state.sum[i], [](float u, float w) { return u + w; });
    const int row = plain_y() + kSide * i;
    if (plain_x() == 0 && row < left) lse[row] = (state.largest[i] + log2f(sum)) * kLn2;
    factor[i] = 1 / sum;
  }
  store_tokens<kPer>(head_of(a, y, 1, 0, head, token), out_stride, state.out, factor, left, width);
}

template <typename T, int kPer>
void launch(cudaStream_t stream, const Attention& a, const T* qkv, T* y, float* lse) {
  using Shape = PlainShape<kPer>;
  launch_tiles<plain_forward_kernel<T, kPer>>(stream, blocks_of(a, Shape::kTokens), kPlainThreads,
                                              Shape::bytes(3, 1), a, qkv, y, lse);
}

}  // namespace

void attention_plain(cudaStream_t stream, const Attention& a, const void* qkv, void* y, float* lse) {
  with_type(a.t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = static_cast<const T*>(qkv);
    T* to = static_cast<T*>(y);
    if (a.width <= 64) return launch<T, 4>(stream, a, from, to, lse);
    if (a.width <= 128) return launch<T, 2>(stream, a, from, to, lse);
    launch<T, 1>(stream, a, from, to, lse);
  });
}

}  // namespace lathe::cuda
