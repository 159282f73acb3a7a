#pragma once
// Attention by products of warpgroups (sm_90a), heads of 64: tiles of 64 tokens lie in shared memory in rows
// of 128 bytes, whose pieces of 16 bytes are swizzled as the instructions expect them, and 128 threads
// multiply. Results [64, 64]: warp w has rows from 16 w on, each lane of them what attention_mma.cuh says.
// Source: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
#include "lathe/backends/cuda/kernels/attention/attention_mma.cuh"
#include "lathe/backends/cuda/kernels/attention/attention_tile.cuh"

namespace lathe::cuda {

constexpr int kGroupThreads = 4 * kWarp, kGroupTokens = 64;
constexpr int kGroupTile = kGroupTokens * 64 * 2;  // bytes

/// Whether a kernel that has shared variables was compiled for this GPU; else it is empty and has none.
template <auto kernel>
bool has_code() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, kernel) == cudaSuccess && found.sharedSizeBytes > 0;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// A result of a warpgroup.
using GroupSums = float[8][4];

/// Where piece `piece` (8 elements) of row `row` of a tile lies, in bytes.
__host__ __device__ constexpr int swizzled_at(int row, int piece) {
  return row * 128 + ((piece ^ row % 8) * 16);
}

/// Starts the copy of 64 tokens of one head from `token` on; the last of the `valid` (≥ 1) that are there is
/// repeated.
template <Order kOrder, typename T>
__device__ inline void copy_group_tile(uint32_t to, const T* from, int stride, int token, int valid) {
  const unsigned thread = fresh_thread();
  const int first = static_cast<int>(thread / 8), piece = static_cast<int>(thread % 8);
#pragma unroll
  for (int row = 0; row < kGroupTokens; row += kGroupThreads / 8)  // `place` moves bits of disjoint numbers
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     to + swizzled_at(place<kOrder>(first) + place<kOrder>(row), piece)),
                 "l"(element_at(from + piece * 8, token + min(first + row, valid - 1), stride))
                 : "memory");
}

/// Makes what ordinary stores and copies of this thread wrote to shared memory visible to products that begin
/// after the next barrier.
__device__ inline void publish_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Describes rows of a tile for the multiplying instructions: the tile is at a multiple of 1024, and the rows
/// begin `bytes` after its begin.
__device__ inline uint32_t describe_tile(uint32_t address) { return address / 16 | 1u << 16; }
__device__ inline uint64_t behind(uint32_t description, uint32_t bytes) {
  constexpr uint64_t kSwizzle128 = 1, kEightRows = 1024;
  return kSwizzle128 << 62 | kEightRows / 16 << 32 | (description + bytes / 16);
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from reading sums before they are there.
__device__ inline void hold(GroupSums& d) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

// clang-format off
#define LT_D32 \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define LT_ROW4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define LT_ROWS LT_ROW4(0), LT_ROW4(1), LT_ROW4(2), LT_ROW4(3), LT_ROW4(4), LT_ROW4(5), LT_ROW4(6), LT_ROW4(7)
#define LT_SHARED_BY_SHARED(type)                                                                    \
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %34, 0;\n"                                          \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " LT_D32                \
               ", %32, %33, p, 1, 1, %35, %36;\n}"                                                   \
               : LT_ROWS : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kATransposed), "n"(kBTransposed))
#define LT_OWN_BY_SHARED(type)                                                                       \
  asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %37, 0;\n"                                          \
               "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " LT_D32                \
               ", {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"                                       \
               : LT_ROWS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                       \
                 "r"(static_cast<int>(add)), "n"(kBTransposed))
// clang-format on

/// d = A·B, or d += A·B if `add`; 16 of k.  Transposed: rows of the tile are k.
template <typename T, int kATransposed, int kBTransposed>
__device__ inline void multiply_group(GroupSums& d, uint64_t a, uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, __half>)
    LT_SHARED_BY_SHARED("f16");
  else
    LT_SHARED_BY_SHARED("bf16");
}
template <typename T, int kBTransposed>
__device__ inline void multiply_group(GroupSums& d, const uint32_t (&a)[4], uint64_t b, bool add) {
  if constexpr (std::is_same_v<T, __half>)
    LT_OWN_BY_SHARED("f16");
  else
    LT_OWN_BY_SHARED("bf16");
}

/// d = A · Bᵀ over the 64 columns of two tiles, by their descriptions.
template <typename T>
__device__ inline void multiply_rows(GroupSums& d, uint32_t a, uint32_t b) {
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_group<T, 0, 0>(d, behind(a, 32 * k), behind(b, 32 * k), k > 0);
}
/// d += A · B over the 64 rows of B; A: operands of 16 columns each.
template <typename T>
__device__ inline void multiply_own(GroupSums& d, const uint32_t (&a)[4][4], uint32_t b, bool add) {
#pragma unroll
  for (int k = 0; k < 4; ++k) multiply_group<T, 1>(d, a[k], behind(b, 2048 * k), add || k > 0);
}
#endif

}  // namespace lathe::cuda
