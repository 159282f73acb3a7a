#pragma once
// Forward attention by products of warpgroups, heads of 64: one block per head and 64 queries of a row; the
// keys pass through shared memory in tiles, the next one on its way while one is computed.
#include "lathe/backends/cuda/kernels/attention/attention_warpgroup.cuh"

namespace lathe::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// One warp's 16 queries.  Scores: [64 queries, 64 keys], of 32 keys each lane t with those from 8 t on.
template <typename T, bool kDrop>
struct GroupForward {
  int g, t;
  float scale;            // of the scores, times log2 e
  GroupSums out;          // Σ p v
  float base[2], sum[2];  // as in ForwardWarp

  __device__ GroupForward(int lane, float factor) : g(lane / 4), t(lane % 4), scale(factor), sum{} {
    base[0] = base[1] = -INFINITY;
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i / 4][i % 4] = 0;
  }

  __device__ void hide(GroupSums& s, int valid) const {
    const float least = scale < 0 ? INFINITY : -INFINITY;
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (i / 16 * 32 + 8 * t + i / 4 % 4 * 2 + i % 2 >= valid) s[i / 4][i % 4] = least;
  }

  __device__ void exponentials(GroupSums& s) {
    float most[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float x = s[0][2 * h];
      if (scale >= 0) {
#pragma unroll
        for (int j = 1; j < 16; ++j) x = fmaxf(x, s[j / 2][2 * h + j % 2]);
      } else {
#pragma unroll
        for (int j = 1; j < 16; ++j) x = fminf(x, s[j / 2][2 * h + j % 2]);
      }
      most[h] = x * scale;
    }
    if (__any_sync(kAllLanes, most[0] > base[0] + kHeadroom || most[1] > base[1] + kHeadroom)) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float largest = fmaxf(base[h], quad_max(most[h])), shrink = exp2_fast(base[h] - largest);
        base[h] = largest;
        sum[h] *= shrink;
#pragma unroll
        for (int n = 0; n < 8; ++n) out[n][2 * h] *= shrink, out[n][2 * h + 1] *= shrink;
      }
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& x = s[i / 4][i % 4];
      x = exp2_fast(x * scale - base[i / 2 % 2]);
      sum[i / 2 % 2] += x;
    }
  }

  /// Zeros what is dropped of 64 keys; words: of query g, then g + 8, 8 keys from 8 t and 32 + 8 t on.
  __device__ static void drop(GroupSums& s, const uint4 (&words)[2][2], const AttentionMask& mask) {
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const uint4& four = words[i / 2 % 2][i / 16];
      const uint32_t word[4] = {four.x, four.y, four.z, four.w};
      mask.drop(word[i / 4 % 4], s[i / 4][i % 4], s[i / 4][i % 4 + 1]);
    }
  }
};
#endif

struct GroupForwardMemory {
  static constexpr int kQ = 0, kStages = kGroupTile;  // keys and values of two tiles
  static constexpr size_t kBytes = 5 * kGroupTile + 1024;
};

template <typename T, bool kDrop>
__global__ void __launch_bounds__(kGroupThreads, 4)
    attention_group_forward_kernel(const __grid_constant__ Attention a, const T* __restrict__ qkv,
                                   T* __restrict__ y, float* __restrict__ lse) {
  follow();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using M = GroupForwardMemory;
  __shared__ Tile tile;
  __shared__ AttentionMask mask;
  share_tile<kDrop, kGroupTokens>(a, tile, mask);
  const int length = tile.length, left = length - tile.first, head = tile.head;
  if (left <= 0) return;
  const int in_stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  lse += static_cast<int64_t>(head) * a.tokens;
  if (tile.row == a.rows) {
    const int count = min(left, kGroupTokens), token = tile.begin + tile.first;
    clear_tokens(head_of(a, y, 1, 0, head, token), out_stride, count, 64);
    clear_tokens(lse + token, 1, count, 1);
    return;
  }
  extern __shared__ __align__(16) unsigned char raw[];
  const uint32_t memory = (shared_address(raw) + 1023) & ~1023u;
  const T* const from_k = head_of(a, qkv, 3, 1, head, tile.begin);
  const auto fetch = [&](int key) {
    const uint32_t stage = memory + M::kStages + key / kGroupTokens % 2 * 2 * kGroupTile;
    copy_group_tile<Order::permuted>(stage, from_k, in_stride, key, length - key);
    copy_group_tile<Order::permuted>(stage + kGroupTile, from_k + out_stride, in_stride, key, length - key);
  };
  copy_group_tile<Order::plain>(memory + M::kQ, from_k - out_stride, in_stride, tile.first, left);
  fetch(0);
  end_copies();
  if (kGroupTokens < length) fetch(kGroupTokens);
  end_copies();
  const int strip = static_cast<int>(threadIdx.x / kWarp) * 16;
  GroupForward<T, kDrop> warp(lane_id(), a.scale * kLog2E);
#pragma unroll 1
  for (int key = 0; key < length; key += kGroupTokens) {
    if (key == 0)
      wait_for_copies<1>();
    else
      wait_for_copies<0>();
    publish_to_products();
    __syncthreads();
    const uint32_t q = describe_tile(memory),
                   keys = q + (M::kStages + key / kGroupTokens % 2 * 2 * kGroupTile) / 16;
    GroupSums s;
    begin_products();
    multiply_rows<T>(s, q, keys);
    commit_products();
    if (key > 0 && key + kGroupTokens < length) fetch(key + kGroupTokens);
    end_copies();
    uint4 words[2][2];
    if constexpr (kDrop)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i / 2][i % 2] =
            mask.words(tile.first + strip + warp.g + i / 2 * 8, (key + i % 2 * 32) / 8 + warp.t);
    await_products<0>();
    hold(s);
    if (length - key < kGroupTokens) warp.hide(s, length - key);
    warp.exponentials(s);
    if constexpr (kDrop) warp.drop(s, words, mask);
    uint32_t p[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) as_operand<T>(p[i], s + 2 * i);
    begin_products();
    multiply_own<T>(warp.out, p, keys + kGroupTile / 16, true);
    commit_products();
    await_products<0>();
    hold(warp.out);
  }
  __syncthreads();
  constexpr int kRow = 64 + kRowPad;
  T* const scratch = reinterpret_cast<T*>(raw + (memory - shared_address(raw)) + M::kStages) + strip * kRow;
  const int token = tile.begin + tile.first + strip;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = quad_sum(warp.sum[h]);
    factor[h] = __fdividef(kDrop ? kept_scale(a) : 1.f, total);
    const int query = 8 * h + warp.g;
    if (warp.t == 0 && query < left - strip) lse[token + query] = (warp.base[h] + log2f(total)) * kLn2;
  }
  store_results<kRow>(head_of(a, y, 1, 0, head, token), out_stride, warp.out, factor[0], factor[1],
                      left - strip, 64, scratch);
#endif
}

/// Whether these kernels take it, and faster than the others do.
template <typename T>
bool group_forward_accepts(const Attention& a) {
  static const bool compiled = has_code<attention_group_forward_kernel<T, true>>();
  return compiled && a.width == 64 && (a.dropout.threshold > 0 || a.tokens > 128 * a.rows);
}

template <typename T>
void launch_group_forward(cudaStream_t stream, const Attention& a, const T* qkv, T* y, float* lse) {
  const dim3 grid = blocks_of(a, kGroupTokens);
  if (a.dropout.threshold > 0)
    launch_tiles<attention_group_forward_kernel<T, true>>(stream, grid, kGroupThreads,
                                                          GroupForwardMemory::kBytes, a, qkv, y, lse);
  else
    launch_tiles<attention_group_forward_kernel<T, false>>(stream, grid, kGroupThreads,
                                                           GroupForwardMemory::kBytes, a, qkv, y, lse);
}

}  // namespace lathe::cuda
