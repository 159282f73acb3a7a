#pragma once
// Backward attention by products of warpgroups, heads of 64: a cluster computes one head of a row, each block
// 64 keys.  Block r begins with queries r and takes those before in a ring: what block r + 1 has summed of
// the gradients of a tile of queries goes on to block r, so that sums have one order.
#include "lathe/backends/cuda/kernels/attention/attention_dkv.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_warpgroup.cuh"

namespace lathe::cuda {

/// In dynamic shared memory, in bytes from a multiple of 1024 on.
struct RingMemory {
  static constexpr int kK = 0, kV = kGroupTile, kQ = 2 * kGroupTile, kDy = 4 * kGroupTile,  // two tiles each
      kDs = 6 * kGroupTile, kReceived = 7 * kGroupTile;  // kReceived: sums, 32 per thread
  static constexpr int kSums = 9 * kGroupTile;           // lse and delta of two tiles of queries
  static constexpr int kSentBytes = 2 * kGroupTile;
  static constexpr size_t kBytes = kSums + 4 * kGroupTokens * sizeof(float) + 1024;  // 1024: to align
};

template <typename T, bool kDrop>
__global__ void __launch_bounds__(kGroupThreads, 3)
    attention_ring_kernel(const __grid_constant__ Attention a, const T* __restrict__ dy,
                          const T* __restrict__ qkv, const T* __restrict__ y, const float* __restrict__ lse,
                          float* prepared, T* __restrict__ dqkv) {
  follow();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using M = RingMemory;
  __shared__ AttentionMask mask;
  __shared__ uint64_t barriers[2];
  extern __shared__ __align__(16) unsigned char raw[];
  const uint32_t memory = (shared_address(raw) + 1023) & ~1023u;
  unsigned char* const generic = raw + (memory - shared_address(raw));
  const uint32_t full = shared_address(barriers), empty = full + 8;

  const int thread = static_cast<int>(threadIdx.x), strip = thread / kWarp * 16;
  const int rank = rank_in_cluster(), blocks = blocks_in_cluster(), heads = static_cast<int>(a.heads);
  const int cluster = static_cast<int>(blockIdx.x) / blocks, row = cluster / heads, head = cluster % heads;
  const int rows = static_cast<int>(a.rows), begin = a.cu[row],
            length = (row < rows ? a.cu[row + 1] : static_cast<int>(a.tokens)) - begin;
  uint32_t seed = 0, update = 0;
  int32_t sample = 0;
  if (kDrop && row < rows) seed = a.dropout.rng[0], update = a.dropout.rng[1], sample = a.row_ids[row];
  const int stride = stride_of(a, 3), out_stride = stride_of(a, 1);
  if (row == rows) {
    for (int first = rank * kGroupTokens; first < length; first += blocks * kGroupTokens)
      for (int part = 0; part < 3; ++part)
        clear_tokens(head_of(a, dqkv, 3, part, head, begin + first), stride,
                     min(length - first, kGroupTokens), 64);
    return;
  }
  const int tiles = (length + kGroupTokens - 1) / kGroupTokens;
  if (tiles > blocks || rank >= tiles) return;

  const int first = rank * kGroupTokens, left = length - first;
  const int64_t own_sums = static_cast<int64_t>(head) * a.tokens + begin, apart = a.heads * a.tokens;
  const int token = thread / 2, there = first + min(token, left - 1);  // two threads a query
  Vec8<T> own_dy[4], own_y[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = thread % 2 * 32 + 8 * i;
    own_dy[i] = *reinterpret_cast<const Vec8<T>*>(head_of(a, dy, 1, 0, head, begin + there) + column);
    own_y[i] = *reinterpret_cast<const Vec8<T>*>(head_of(a, y, 1, 0, head, begin + there) + column);
  }
  const float own_lse = lse[own_sums + there];
  const T* const from_q = head_of(a, qkv, 3, 0, head, begin);
  const T* const from_dy = head_of(a, dy, 1, 0, head, begin);
  const auto fetch = [&](int tile, int stage) {
    const int token = tile * kGroupTokens, valid = length - token;
    copy_group_tile<Order::plain>(memory + M::kQ + stage * kGroupTile, from_q, stride, token, valid);
    copy_group_tile<Order::plain>(memory + M::kDy + stage * kGroupTile, from_dy, out_stride, token, valid);
  };
  copy_group_tile<Order::swapped>(memory + M::kK, from_q + out_stride, stride, first, left);
  copy_group_tile<Order::swapped>(memory + M::kV, from_q + 2 * out_stride, stride, first, left);
  fetch(rank, 0);
  end_copies();
  if (tiles > 1) fetch(rank + 1 == tiles ? 0 : rank + 1, 1);
  end_copies();

  if (thread == 0) {
    if (kDrop) mask.prepare(a.dropout, seed, update, head, sample);
    init_barrier(full, 1);
    init_barrier(empty, 4);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (tiles > 1) expect(full, M::kSentBytes);
  }
  // lse in units of log 2 and −(1 − p) Σ dy∘y of this block's queries, for all blocks.
  float* const sums = reinterpret_cast<float*>(generic + M::kSums);
  {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += to_float(own_dy[i].at[k]) * to_float(own_y[i].at[k]);
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    const float value = thread % 2 == 0 ? own_lse * kLog2E : sum * -(kDrop ? kept_part(a) : 1.f);
    sums[thread % 2 * kGroupTokens + token] = token < left || thread % 2 == 1 ? value : INFINITY;
    if (token < left) prepared[own_sums + first + token + thread % 2 * apart] = value;
  }

  const float scale = a.scale * kLog2E;
  GroupSums dk, dv, dq;
#pragma unroll
  for (int i = 0; i < 32; ++i) dk[i / 4][i % 4] = dv[i / 4][i % 4] = 0;
  int tile = rank;
#pragma unroll 1
  for (int step = 0; step < tiles; ++step) {
    const int stage = step % 2;
    const int next = tile + 1 == tiles ? 0 : tile + 1;
    if (step == 0)
      wait_for_copies<1>();
    else
      wait_for_copies<0>();
    publish_to_products();
    __syncthreads();
    if (step > 0 && step + 1 < tiles) fetch(next, 1 - stage);
    end_copies();
    const uint32_t tiles_at = describe_tile(memory), q = tiles_at + (M::kQ + stage * kGroupTile) / 16,
                   g_y = q + (M::kDy - M::kQ) / 16;
    GroupSums s, dp;
    begin_products();
    multiply_rows<T>(s, tiles_at + M::kK / 16, q);
    commit_products();
    multiply_rows<T>(dp, tiles_at + M::kV / 16, g_y);
    commit_products();
    if (step == 0) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    const int thread = static_cast<int>(fresh_thread()), lane = thread % kWarp, strip = thread / kWarp * 16,
              g = lane / 4, t = lane % 4;
    uint32_t words[4][4];
    if constexpr (kDrop)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        draw_transposed(words[i], mask, tile * kGroupTokens + 16 * i, first + strip, g, t);
    await_products<0>();
    hold(s);
    hold(dp);
    uint32_t p_operand[4][4], ds_operand[4][4];
    const float* const of_tile = sums + stage * 2 * kGroupTokens + 2 * t;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float2 l = *reinterpret_cast<const float2*>(of_tile + 16 * i + 8 * n);
        const float2 d = *reinterpret_cast<const float2*>(of_tile + kGroupTokens + 16 * i + 8 * n);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          float *const p = s[2 * i + n] + j, *const x = dp[2 * i + n] + j;
          p[0] = exp2_fast(p[0] * scale - l.x), p[1] = exp2_fast(p[1] * scale - l.y);
          const float drawn[2] = {p[0] * d.x, p[1] * d.y};
          if constexpr (kDrop) mask.drop(words[i][2 * n + j / 2], p[0], p[1]);
          x[0] = p[0] * x[0] + drawn[0], x[1] = p[1] * x[1] + drawn[1];
        }
      }
      as_operand<T>(p_operand[i], s + 2 * i);
      as_operand<T>(ds_operand[i], dp + 2 * i);
      asm volatile("" ::: "memory");
    }
    if (left < kGroupTokens) {
      const bool upper = strip + swapped(g) < left, lower = strip + swapped(g + 8) < left;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!upper) ds_operand[i][0] = ds_operand[i][2] = 0;
        if (!lower) ds_operand[i][1] = ds_operand[i][3] = 0;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
              memory + M::kDs + (strip + lane % 16) * 128 + (((2 * i + lane / 16) ^ (lane % 8)) * 16)),
          "r"(ds_operand[i][0]), "r"(ds_operand[i][1]), "r"(ds_operand[i][2]), "r"(ds_operand[i][3])
          : "memory");
    publish_to_products();
    begin_products();
    multiply_own<T>(dv, p_operand, g_y, true);
    multiply_own<T>(dk, ds_operand, q, true);
    commit_products();
    __syncthreads();
    float of_next = 0;
    if (step + 1 < tiles) {
      if (step == 0) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
      const int query = next * kGroupTokens + thread % kGroupTokens;
      of_next = query < length ? __ldcg(prepared + own_sums + query + thread / kGroupTokens * apart)
                               : (thread < kGroupTokens ? INFINITY : 0.f);
    }
    if (step > 0) {
      await_barrier(full, (step - 1) % 2);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        *reinterpret_cast<float4*>(dq[j]) =
            *reinterpret_cast<const float4*>(generic + M::kReceived + j * kGroupThreads * 16 + thread * 16);
      if (step + 1 < tiles && thread == 0) expect(full, M::kSentBytes);
    } else {
#pragma unroll
      for (int j = 0; j < 32; ++j) dq[j / 4][j % 4] = 0;
    }
    begin_products();
#pragma unroll
    for (int k = 0; k < 4; ++k)
      multiply_group<T, 1, 1>(dq, behind(tiles_at, M::kDs + 2048 * k), behind(tiles_at, M::kK + 2048 * k),
                              true);
    commit_products();
    if (step > 0 && step + 1 < tiles && lane == 0)  // what was received has been read
      asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(
                       in_block(empty, rank + 1 == tiles ? 0 : rank + 1))
                   : "memory");
    await_products<0>();
    hold(dq);
    if (step + 1 < tiles) {
      sums[(1 - stage) * 2 * kGroupTokens + thread] = of_next;
      if (step > 0) await_barrier(empty, (step - 1) % 2);
      const int next_block = rank == 0 ? tiles - 1 : rank - 1;
      const uint32_t send_to = in_block(memory + M::kReceived + thread * 16, next_block),
                     send_full = in_block(full, next_block);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::
                "r"(send_to + j * kGroupThreads * 16),
            "f"(dq[j][0]), "f"(dq[j][1]), "f"(dq[j][2]), "f"(dq[j][3]), "r"(send_full)
            : "memory");
      tile = next;
    }
  }
  hold(dk);
  hold(dv);
  __syncthreads();
  const float kept = kDrop ? kept_scale(a) : 1.f, factor = a.scale * kept;
  constexpr int kRow = 64 + kRowPad;
  T* const scratch = reinterpret_cast<T*>(generic + M::kQ) + strip * kRow;
  T* const to_k = head_of(a, dqkv, 3, 1, head, begin + first + strip);
  store_results<kRow>(head_of(a, dqkv, 3, 0, head, begin + tile * kGroupTokens + strip), stride, dq, factor,
                      factor, length - tile * kGroupTokens - strip, 64, scratch);
  store_results<kRow, true>(to_k, stride, dk, factor, factor, left - strip, 64, scratch);
  store_results<kRow, true>(to_k + out_stride, stride, dv, kept, kept, left - strip, 64, scratch);
#endif
}

/// Blocks of a ring, which serves rows of up to 64 tokens a block, for rows as long as these on average; 0:
/// other kernels are faster, or this GPU is none that the ring was compiled for.
template <typename T>
int blocks_of_ring(const Attention& a) {
  static const bool compiled = has_code<attention_ring_kernel<T, true>>();
  if (!compiled || a.width != 64 || a.tokens <= 64 * a.rows || a.tokens > 512 * a.rows) return 0;
  return a.tokens <= 128 * a.rows ? 2 : a.tokens <= 384 * a.rows ? 6 : 8;
}

/// prepared: [2, H, N].
template <typename T, bool kDrop>
void launch_ring_of(cudaStream_t stream, int blocks, const Attention& a, const T* dy, const T* qkv,
                    const T* y, const float* lse, float* prepared, T* dqkv) {
  static const cudaError_t allowed =
      cudaFuncSetAttribute(attention_ring_kernel<T, kDrop>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(RingMemory::kBytes));
  static_cast<void>(allowed);  // a launch that asks for more than is allowed fails by itself
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>((a.rows + 1) * a.heads * blocks)};
  config.blockDim = {kGroupThreads};
  config.dynamicSmemBytes = RingMemory::kBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  static_cast<void>(cudaLaunchKernelEx(&config, attention_ring_kernel<T, kDrop>, a, dy, qkv, y, lse, prepared,
                                       dqkv));  // found by whoever asks for the last error
}

template <typename T>
void launch_ring(cudaStream_t stream, int blocks, const Attention& a, const T* dy, const T* qkv, const T* y,
                 const float* lse, float* prepared, T* dqkv) {
  if (a.dropout.threshold > 0)
    return launch_ring_of<T, true>(stream, blocks, a, dy, qkv, y, lse, prepared, dqkv);
  launch_ring_of<T, false>(stream, blocks, a, dy, qkv, y, lse, prepared, dqkv);
}

}  // namespace lathe::cuda
