#pragma once
// What all attention kernels share: which tokens a block computes, and where they lie.
#include "lathe/backends/cuda/kernels/attention/attention.h"
#include "lathe/backends/cuda/kernels/attention/attention_mask.cuh"
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// A block's part of a row: tokens `first` … of the row, which begins at token `begin`, of one head.  Row B
/// stands for the tokens that belong to no row.
struct Tile {
  int row, begin, length, first, head;
};

/// Blocks, if a tile holds `size` tokens: every head of a tile before the next tile.  Tiles 0 … B are the
/// first ones of their rows; the following ones of row b are those from B + 1 + ⌊cu[b] / size⌋ on.  They are
/// enough, because ⌊(c + n) / size⌋ − ⌊c / size⌋ ≥ ⌈n / size⌉ − 1; those too many have first ≥ length, and
/// most of them come last, when no other block waits for their place.
inline dim3 blocks_of(const Attention& a, int size) {
  return {static_cast<unsigned>((a.rows + 1 + a.tokens / size) * a.heads)};
}

/// The calling block's tile.  All lanes of the warp call it.
template <int size>
__device__ inline Tile find_tile(const Attention& a) {
  const int heads = static_cast<int>(a.heads), index = static_cast<int>(blockIdx.x) / heads,
            head = static_cast<int>(blockIdx.x) - index * heads, rows = static_cast<int>(a.rows);
  int row = index, begin, first = 0;
  if (index <= rows) {
    begin = a.cu[row];
  } else {
    const int following = index - rows - 1;
    int begun = 0;  // rows whose following tiles begin there or before
#pragma unroll 4
    for (int b = static_cast<int>(threadIdx.x) % kWarp; b <= rows; b += kWarp)
      begun += a.cu[b] / size <= following ? 1 : 0;
    row = __reduce_add_sync(kAllLanes, begun) - 1;
    begin = a.cu[row];
    first = (following - begin / size + 1) * size;
  }
  const int end = row < rows ? a.cu[row + 1] : static_cast<int>(a.tokens);
  return {row, begin, end - begin, first, head};
}

/// Element 0 of a head of token `token` in [N, parts, H, D], and the elements from one token to the next.
template <typename T>
__device__ inline T* head_of(const Attention& a, T* x, int parts, int part, int head, int token) {
  const int heads = static_cast<int>(a.heads), width = static_cast<int>(a.width);
  return x + static_cast<int64_t>(token) * (parts * heads * width) + (part * heads + head) * width;
}
__device__ inline int stride_of(const Attention& a, int parts) {
  return parts * static_cast<int>(a.heads * a.width);
}

/// Zeros `width` elements of each of the tokens of a tile that belongs to no row.
template <typename T>
__device__ inline void clear_tokens(T* to, int stride, int count, int width) {
  for (int i = static_cast<int>(threadIdx.x); i < count * width; i += static_cast<int>(blockDim.x))
    to[static_cast<int64_t>(i / width) * stride + i % width] = from_float<T>(0.f);
}

/// The block's tile, and its random words if kDrop and it drops, in shared memory: what every thread needs
/// now and then takes no registers meanwhile.
template <bool kDrop, int size>
__device__ inline void share_tile(const Attention& a, Tile& tile, AttentionMask& mask) {
  if (threadIdx.x < kWarp) {
    const bool drops = kDrop && a.dropout.threshold > 0 && a.rows > 0;
    const uint32_t seed = drops ? a.dropout.rng[0] : 0, step = drops ? a.dropout.rng[1] : 0;
    const Tile found = find_tile<size>(a);
    if (threadIdx.x == 0) {
      tile = found;
      if (drops && found.row < a.rows) mask.prepare(a.dropout, seed, step, found.head, a.row_ids[found.row]);
    }
  }
  __syncthreads();
}

/// Of a row of `length` tokens those that tokens [first, first + count) may see or be seen by, from a
/// multiple of `step` on.
template <bool kWindow>
__device__ inline int2 reach(const Attention& a, int first, int count, int length, int step) {
  if (!kWindow) return {0, length};
  return {max(0, first - a.window) / step * step, min(length, first + count + a.window)};
}

/// 1 / (1 − p), or 0 where all are dropped (1 / (1 − p) then is infinite).
__device__ inline float kept_scale(const Attention& a) {
  return a.dropout.threshold > 0xffffu ? 0.f : a.dropout.scale;
}

/// 1 − p, by which Σ dy∘y is multiplied where gradients of scores lack kept_scale.
__device__ inline float kept_part(const Attention& a) {
  return static_cast<float>(0x10000 - static_cast<int>(a.dropout.threshold)) * 0x1p-16f;
}

/// Whether a block of this process's GPU may have this much dynamic shared memory in addition to a KiB of
/// static variables.  Together they may be 99 KiB where the compute capability is 8.6, 8.9 or 12.0, 163 KiB
/// or more elsewhere.
bool block_has(size_t bytes);

/// Launches `kernel` with `bytes` of dynamic shared memory, of which more than 48 KiB have to be asked for.
template <auto kernel, typename... Args>
void launch_tiles(cudaStream_t stream, dim3 grid, int threads, size_t bytes, Args... args) {
  static const cudaError_t allowed =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  static_cast<void>(allowed);  // a launch that asks for more than is allowed fails by itself
  if (grid.x * grid.y > 0) kernel<<<grid, threads, bytes, stream>>>(args...);
}

}  // namespace lathe::cuda
