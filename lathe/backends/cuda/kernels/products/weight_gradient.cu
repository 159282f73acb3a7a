// A block computes a tile of C, or a part of its sums over k; the blocks of a cluster hold all parts of one
// tile. One warp has the copy engine bring slices of 64 rows of A and B to shared memory, kStages ahead;
// groups of four warps multiply them, 64 rows of the tile each.  Both operands lie with m and n contiguous,
// as the instructions can read them.  Columns of ones after those of B give the sums of A. Source: PTX ISA
// 9.0, "Asynchronous warpgroup level matrix instructions" and "Tensor copy instructions".
#include <iterator>

#include "lathe/backends/cuda/kernels/products/tensor_map.h"
#include "lathe/backends/cuda/kernels/products/warpgroup_product.cuh"
#include "lathe/backends/cuda/kernels/products/weight_gradient.h"
#include "lathe/backends/cuda/kernels/vector.cuh"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

/// Tiles of kGroups · 64 × kCols elements of C; sums over k in kParts parts.
template <int kGroupsOf, int kColsOf, int kPartsOf>
struct Tiling {
  static constexpr int kGroups = kGroupsOf, kRows = 64 * kGroups, kCols = kColsOf, kParts = kPartsOf;
  static constexpr int kConsumers = kGroups * kProductGroup, kThreads = kConsumers + kWarp;
  static constexpr int kABytes = kRows * kSlice * 2, kBBytes = kCols * kSlice * 2;
  static constexpr int kStageBytes = kABytes + kBBytes + kPanelBytes;  // the last: ones
  static constexpr int kStages = static_cast<int>((kMostShared - 2048) / kStageBytes);
  static constexpr int kStagesBytes = kStages * kStageBytes;
  static constexpr size_t kShared = kStagesBytes + 1024;  // 1024: to align
  // When all is summed: columns that a block finishes, its sums of them in a thread, what other blocks send
  // to it, and rows of a warp on their way out, of which no two of eight begin in one bank.
  static constexpr int kShare = kCols / kParts, kOwn = kShare / 2,
                       kPitch = kShare + (kShare % 16 == 0 ? 8 : 16);
  static constexpr int kSent = kConsumers * kOwn * 4, kSentSums = kRows * 4;
  static constexpr int kSums = (kParts - 1) * kSent, kOut = kSums + (kParts - 1) * kSentSums;
  static_assert(kCols % kPanel == 0 && kShare % 8 == 0 && (kParts & (kParts - 1)) == 0 && kStages >= 3);
  static_assert(kOut + kRows * kPitch * 4 <= kStagesBytes);
};

/// What the kernel needs to know in addition to the two maps.
struct Target {
  int m, n, k;
  void* c;
  bool rounded;  ///< C is of A's type, else f32
  float* sums;   ///< of A, [m], or null
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// The warp that brings slices begin … end - 1.
template <typename W>
__device__ inline void produce(const CUtensorMap& a_map, const CUtensorMap& b_map, int begin, int end,
                               int first_row, int first_col, uint32_t stages, uint32_t full, uint32_t empty) {
  for (int slice = begin, i = 0; slice < end; ++slice, ++i) {
    const int stage = i % W::kStages, round = i / W::kStages;
    if (round > 0) await_barrier(empty + 8 * stage, (round - 1) % 2);
    const uint32_t a = stages + stage * W::kStageBytes;
    expect(full + 8 * stage, W::kABytes + W::kBBytes);
    bring_panels(a, a_map, slice * kSlice, first_row / kPanel, full + 8 * stage);
    bring_panels(a + W::kABytes, b_map, slice * kSlice, first_col / kPanel, full + 8 * stage);
  }
}

template <typename T, typename W>
__device__ inline void fill_ones(uint8_t* memory) {
  const uint32_t pair = std::is_same_v<T, __half> ? 0x3c003c00u : 0x3f803f80u;
  constexpr int kPieces = kPanelBytes / 16;
  for (int i = static_cast<int>(threadIdx.x); i < W::kStages * kPieces; i += W::kConsumers)
    *reinterpret_cast<uint4*>(memory + (i / kPieces + 1) * W::kStageBytes - kPanelBytes + i % kPieces * 16) =
        make_uint4(pair, pair, pair, pair);
  publish();
}

template <typename W>
__device__ inline void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(W::kConsumers) : "memory");
}

/// The warps that multiply `count` slices.
template <typename W, typename T, bool kSums, int kCount>
__device__ inline void consume(float (&d)[kCount], int count, uint32_t stages, uint32_t full,
                               uint32_t empty) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < count; ++i) {
    const int stage = i % W::kStages;
    await_barrier(full + 8 * stage, i / W::kStages % 2);
    const uint32_t a = stages + stage * W::kStageBytes + thread / kProductGroup * kPanelBytes;
    const uint32_t b = stages + stage * W::kStageBytes + W::kABytes;
    begin_slice();
#pragma unroll
    for (int row = 0; row < kSlice; row += 16)
      multiply_slice<T, W::kCols + (kSums ? 8 : 0), 1, 1>(d, describe_operand(a + row * kPanel * 2),
                                                          describe_operand(b + row * kPanel * 2));
    commit_slice();
    await_slices<1>();
    if (i > 0 && thread % kProductGroup == 0)
      arrive(empty + 8 * ((i - 1) % W::kStages));  // the slice before is free
  }
  await_slices<0>();
}

/// d[part · kOwn …] for any part.
template <typename W, int kCount>
__device__ inline void share_of(const float (&d)[kCount], int part, float (&own)[W::kOwn]) {
#pragma unroll
  for (int j = 0; j < W::kOwn; ++j) {
    own[j] = d[j];
#pragma unroll
    for (int p = 1; p < W::kParts; ++p)
      if (part == p) own[j] = d[p * W::kOwn + j];
  }
}
#endif

// Older GPUs know no clusters, and get an empty kernel.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define LT_CLUSTER(blocks)
#else
#define LT_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#endif
template <typename W, typename T>
__global__ void LT_CLUSTER(W::kParts) __launch_bounds__(W::kThreads, 1)
    weight_gradient_kernel(const __grid_constant__ CUtensorMap a_map,
                           const __grid_constant__ CUtensorMap b_map, Target to) {
  follow();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t raw[];
  uint8_t* memory = raw + (1024 - shared_address(raw) % 1024) % 1024;
  __shared__ uint64_t barriers[2 * W::kStages];  // `has_code` asks for these
  const uint32_t stages = shared_address(memory), full = shared_address(barriers),
                 empty = full + 8 * W::kStages;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int part = W::kParts == 1 ? 0 : rank_in_cluster();
  const int first_row = static_cast<int>(blockIdx.x) / W::kParts * W::kRows;
  const int first_col = static_cast<int>(blockIdx.y) * W::kCols;
  const int slices = (to.k + kSlice - 1) / kSlice;
  const int begin = slices * part / W::kParts, end = slices * (part + 1) / W::kParts;
  if (thread == W::kConsumers) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&a_map) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&b_map) : "memory");
  }
  if (thread == 0) {
    for (int s = 0; s < W::kStages; ++s) {
      init_barrier(full + 8 * s, 1);
      init_barrier(empty + 8 * s, W::kGroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (thread >= W::kConsumers) {
    if (lane == 0) produce<W>(a_map, b_map, begin, end, first_row, first_col, stages, full, empty);
    __syncwarp();
    if constexpr (W::kParts > 1) sync_cluster(), sync_cluster();
    return;
  }
  const bool sums = to.sums != nullptr && first_col == 0;
  float d[W::kCols / 2 + 4];  // after the sums those with eight columns of ones: sums of A
#pragma unroll
  for (float& sum : d) sum = 0;
  if (sums) {
    fill_ones<T, W>(memory);
    sync_consumers<W>();
    consume<W, T, true>(d, end - begin, stages, full, empty);
  } else {
    consume<W, T, false>(d, end - begin, stages, full, empty);
  }

  // A lane holds pairs of columns of two rows: C[row][8 j + 2 (lane % 4) + 0, 1], then those of row + 8.
  const int row = warp * 16 + lane / 4;
  float own[W::kOwn];
  share_of<W>(d, part, own);
  float row_sum = d[W::kCols / 2], next_sum = d[W::kCols / 2 + 2];
  if constexpr (W::kParts == 1) {
    sync_consumers<W>();
  } else {
    sync_cluster();
#pragma unroll
    for (int q = 1; q < W::kParts; ++q) {
      float other[W::kOwn];
      share_of<W>(d, part ^ q, other);
      const uint32_t there = in_block(stages + (q - 1) * W::kSent + thread * 16, part ^ q);
#pragma unroll
      for (int j = 0; j < W::kOwn; j += 4)
        asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(there + j * W::kConsumers * 4),
                     "f"(other[j]), "f"(other[j + 1]), "f"(other[j + 2]), "f"(other[j + 3])
                     : "memory");
    }
    if (sums && part > 0 && lane % 4 == 0) {
      const uint32_t there = in_block(stages + W::kSums + (part - 1) * W::kSentSums + row * 4, 0);
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(row_sum) : "memory");
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 32), "f"(next_sum) : "memory");
    }
    sync_cluster();
#pragma unroll
    for (int q = 1; q < W::kParts; ++q) {
#pragma unroll
      for (int j = 0; j < W::kOwn; j += 4) {
        const float4 more = *reinterpret_cast<const float4*>(memory + (q - 1) * W::kSent + thread * 16 +
                                                             j * W::kConsumers * 4);
        own[j] += more.x, own[j + 1] += more.y, own[j + 2] += more.z, own[j + 3] += more.w;
      }
      const float* sent = reinterpret_cast<const float*>(memory + W::kSums + (q - 1) * W::kSentSums);
      if (sums && part == 0) row_sum += sent[row], next_sum += sent[row + 8];
    }
  }
  if (sums && part == 0 && lane % 4 == 0) {
    if (first_row + row < to.m) to.sums[first_row + row] = row_sum;
    if (first_row + row + 8 < to.m) to.sums[first_row + row + 8] = next_sum;
  }

  float* out = reinterpret_cast<float*>(memory + W::kOut) + warp * 16 * W::kPitch;
#pragma unroll
  for (int j = 0; j < W::kOwn; j += 4) {
    float* at = out + lane / 4 * W::kPitch + j * 2 + lane % 4 * 2;
    *reinterpret_cast<float2*>(at) = make_float2(own[j], own[j + 1]);
    *reinterpret_cast<float2*>(at + 8 * W::kPitch) = make_float2(own[j + 2], own[j + 3]);
  }
  __syncwarp();
  constexpr int kVectors = W::kShare / 8;
#pragma unroll 2
  for (int i = lane; i < 16 * kVectors; i += kWarp) {
    const int c = i % kVectors * 8, out_row = first_row + warp * 16 + i / kVectors;
    const int out_col = first_col + part * W::kShare + c;
    if (out_row >= to.m || out_col >= to.n) continue;
    float sum[8];
    load8(out + i / kVectors * W::kPitch + c, sum);
    const int64_t at = int64_t{out_row} * to.n + out_col;
    if (to.rounded)
      store_vec(static_cast<T*>(to.c) + at, sum);
    else
      store_vec(static_cast<float*>(to.c) + at, sum);
  }
#endif
}

template <typename W>
dim3 grid_of(const Product& p) {
  return dim3(static_cast<unsigned>(ceil_div(p.m, W::kRows) * W::kParts),
              static_cast<unsigned>(ceil_div(p.n, W::kCols)));
}

template <typename W>
cudaError_t launch(cudaStream_t stream, const Product& p) {
  CUtensorMap a, b;
  if (describe_panels(a, p.a, p.type, p.k, p.m, W::kRows) != CUDA_SUCCESS ||
      describe_panels(b, p.b, p.type, p.k, p.n, W::kCols) != CUDA_SUCCESS)
    return cudaErrorInvalidValue;
  const Target to{static_cast<int>(p.m),  static_cast<int>(p.n),
                  static_cast<int>(p.k),  p.c,
                  p.c_type != DType::f32, p.a_sums};
  const auto by = [&](auto kernel) {
    const cudaError_t granted =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W::kShared);
    if (granted != cudaSuccess) return granted;
    kernel<<<grid_of<W>(p), W::kThreads, W::kShared, stream>>>(a, b, to);
    return cudaGetLastError();
  };
  return p.type == DType::bf16 ? by(weight_gradient_kernel<W, __nv_bfloat16>)
                               : by(weight_gradient_kernel<W, __half>);
}

/// Whether the kernel was compiled for this GPU; else it is empty and has no barriers.
template <typename W>
bool has_code() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, weight_gradient_kernel<W, __nv_bfloat16>) == cudaSuccess &&
         found.sharedSizeBytes > 0;
}

struct Way {
  cudaError_t (*launch)(cudaStream_t, const Product&);
  dim3 (*grid_of)(const Product&);
  bool (*has_code)();
};
template <typename W>
constexpr Way kWay = {launch<W>, grid_of<W>, has_code<W>};
/// Choices that are written down name them by their places.
constexpr Way kWays[] = {kWay<Tiling<3, 192, 2>>, kWay<Tiling<2, 192, 1>>, kWay<Tiling<2, 128, 1>>,
                         kWay<Tiling<2, 128, 2>>};

}  // namespace

int weight_gradient_ways() { return static_cast<int>(std::size(kWays)); }

bool weight_gradient_accepts(const Product& p, int way) {
  const bool types = p.type != DType::f32 && (p.c_type == DType::f32 || p.c_type == p.type);
  return way < weight_gradient_ways() && p.a_transposed && !p.b_transposed && types && p.m % kPanel == 0 &&
         p.n % kPanel == 0 && p.bias == nullptr && p.addend == nullptr && aligned16(p.a, p.b, p.c) &&
         kWays[way].has_code();
}

int weight_gradient_blocks(const Product& p, int way) {
  const dim3 grid = kWays[way].grid_of(p);
  return static_cast<int>(grid.x * grid.y);
}

cudaError_t weight_gradient(cudaStream_t stream, const Product& p, int way) {
  return kWays[way].launch(stream, p);
}

}  // namespace lathe::cuda
