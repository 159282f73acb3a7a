#pragma once
// What kernels share that multiply by groups of four warps (sm_90a): the copy engine brings slices of 64 of k
// of both operands to shared memory, in panels of 64 neighbouring elements, whose pieces of 16 bytes are
// swizzled as the instructions expect them.  Results [64, n]: warp w has rows from 16 w on, and lane l of it
// d[4 j …] = C[l / 4][8 j + 2 (l % 4) + 0, 1], then those of 8 rows below.
// Source: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions" and "Tensor copy instructions".
#include <cuda.h>

#include "lathe/backends/cuda/kernels/cluster.cuh"
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

constexpr int kProductGroup = 4 * kWarp;  // threads that multiply together
constexpr int kSlice = 64;                // of k that is brought at once
constexpr int kPanel = 64;                // neighbouring elements: 128 bytes
constexpr int kPanelBytes = kSlice * kPanel * 2;
constexpr size_t kMostShared = 227 << 10;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// A box of a matrix (tensor_map.h) from row `row` and column `col` on.
__device__ inline void bring_box(uint32_t to, const CUtensorMap& map, int row, int col, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(col), "r"(row), "r"(barrier)
      : "memory");
}
/// A box of panels from row `row` and panel `panel` on.
__device__ inline void bring_panels(uint32_t to, const CUtensorMap& map, int row, int panel,
                                    uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(panel), "r"(barrier)
      : "memory");
}
/// Makes what this thread wrote to shared memory visible to copies and products after the next barrier.
__device__ inline void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Describes an operand for the multiplying instructions.  Of panels along k: `address` is that of eight
/// rows, and k goes on within these.  Of panels along m or n: rows are k, and a panel follows the other.
__device__ inline uint64_t describe_operand(uint32_t address) {
  constexpr uint64_t kSwizzle128 = 1, kEightRows = 8 * kPanel * 2;
  return kSwizzle128 << 62 | kEightRows / 16 << 32 | uint64_t{kPanelBytes / 16} << 16 |
         (address & 0x3ffff) / 16;
}

// clang-format off
#define LT_D64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LT_D68 \
  LT_D64 ", " \
  "%64, %65, %66, %67"
#define LT_D96 \
  LT_D68 ", " \
  "%68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
  "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LT_D100 \
  LT_D96 ", " \
  "%96, %97, %98, %99"
#define LT_D8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define LT_D16 LT_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LT_D32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LT_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LT_F8(i) LT_F4(i), LT_F4(i + 4)
#define LT_F32(i) LT_F4(i), LT_F4(i + 4), LT_F4(i + 8), LT_F4(i + 12), LT_F4(i + 16), LT_F4(i + 20), LT_F4(i + 24), LT_F4(i + 28)
#define LT_MULTIPLY_TYPE(type, n, sums, operands, ...)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"                                        \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type                   \
               " {" sums "}, " operands ";\n}"                                                   \
               : __VA_ARGS__ : "l"(a), "l"(b), "n"(kTransposedA), "n"(kTransposedB))
#define LT_MULTIPLY(...)                            \
  if constexpr (std::is_same_v<T, __half>)          \
    LT_MULTIPLY_TYPE("f16", __VA_ARGS__);           \
  else                                              \
    LT_MULTIPLY_TYPE("bf16", __VA_ARGS__)
// clang-format on

/// d += A·B for 64 rows, kCols columns and 16 of k.  kTransposedA, kTransposedB: panels of A lie along m, of
/// B along n; else along k.
template <typename T, int kCols, int kTransposedA, int kTransposedB, int kCount>
__device__ inline void multiply_slice(float (&d)[kCount], uint64_t a, uint64_t b) {
  static_assert(kCount >= kCols / 2);
  if constexpr (kCols == 16) {
    LT_MULTIPLY("16", LT_D8, "%8, %9, p, 1, 1, %10, %11", LT_F8(0));
  } else if constexpr (kCols == 32) {
    LT_MULTIPLY("32", LT_D16, "%16, %17, p, 1, 1, %18, %19", LT_F8(0), LT_F8(8));
  } else if constexpr (kCols == 64) {
    LT_MULTIPLY("64", LT_D32, "%32, %33, p, 1, 1, %34, %35", LT_F32(0));
  } else if constexpr (kCols == 128) {
    LT_MULTIPLY("128", LT_D64, "%64, %65, p, 1, 1, %66, %67", LT_F32(0), LT_F32(32));
  } else if constexpr (kCols == 136) {
    LT_MULTIPLY("136", LT_D68, "%68, %69, p, 1, 1, %70, %71", LT_F32(0), LT_F32(32), LT_F4(64));
  } else if constexpr (kCols == 192) {
    LT_MULTIPLY("192", LT_D96, "%96, %97, p, 1, 1, %98, %99", LT_F32(0), LT_F32(32), LT_F32(64));
  } else {
    static_assert(kCols == 200);
    LT_MULTIPLY("200", LT_D100, "%100, %101, p, 1, 1, %102, %103", LT_F32(0), LT_F32(32), LT_F32(64),
                LT_F4(96));
  }
}

__device__ inline void begin_slice() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_slice() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void await_slices() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
#endif

}  // namespace lathe::cuda
