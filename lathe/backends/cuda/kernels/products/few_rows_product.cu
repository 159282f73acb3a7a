// The blocks of a cluster hold all parts of the sums of one tile of C.  A part is so short that the copy
// engine brings all of it at once; groups of four warps multiply it, 64 rows each.  Then every block adds up
// its share of the tile out of the shared memory of all, part by part.  Source: PTX ISA 9.0, "Asynchronous
// warpgroup level matrix instructions", "Tensor copy instructions"; CUDA programming guide, "Distributed
// shared memory".
#include <algorithm>
#include <iterator>

#include "lathe/backends/cuda/kernels/products/few_rows_product.h"
#include "lathe/backends/cuda/kernels/products/tensor_map.h"
#include "lathe/backends/cuda/kernels/products/warpgroup_product.cuh"
#include "lathe/backends/cuda/kernels/rows/gelu.cuh"
#include "lathe/backends/cuda/kernels/vector.cuh"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int64_t kMostRows = 512;

/// Tiles of kGroups · 64 × kCols elements of C.
template <int kGroupsOf, int kColsOf>
struct Tiling {
  static constexpr int kGroups = kGroupsOf, kRows = 64 * kGroups, kCols = kColsOf;
  static constexpr int kThreads = kGroups * kProductGroup;
  static constexpr int kABytes = kRows * kSlice * 2, kBBytes = kCols * kSlice * 2;
  static constexpr int kSliceBytes = kABytes + kBBytes;
  static constexpr int kMostSlices = std::min(static_cast<int>((kMostShared - 2048) / kSliceBytes), 16);
  static constexpr int kPitch = kCols + 8;  // of rows of sums, of which no two of four begin in one bank
  /// Shared memory of a block with so many slices, in which its sums take the place of these.
  static size_t shared(int slices) { return 1024 + std::max(slices * kSliceBytes, kRows * kPitch * 4); }
  static_assert(kCols % 16 == 0 && kSliceBytes % 1024 == 0);
};

/// What the kernel needs to know in addition to its maps.
struct Shape {
  int m, n, k, parts;
  bool b_is_settled;
  const void* bias;  ///< [n], of A's type, or null
  void *c, *gelu;    ///< null where they are not stored
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// Sums of all slices of this block.
template <typename W, typename T>
__device__ inline void multiply(float (&d)[W::kCols / 2], int slices, uint32_t memory, uint32_t came) {
  const int group = static_cast<int>(threadIdx.x) / kProductGroup;
  for (int i = 0; i < slices; ++i) {
    await_barrier(came + 8 * i, 0);
    const uint32_t a = memory + i * W::kSliceBytes + group * 64 * kSlice * 2;
    const uint32_t b = memory + i * W::kSliceBytes + W::kABytes;
    begin_slice();
#pragma unroll
    for (int k = 0; k < kSlice; k += 16)
      multiply_slice<T, W::kCols, 0, 0>(d, describe_operand(a + k * 2), describe_operand(b + k * 2));
    commit_slice();
  }
  await_slices<0>();
}

constexpr int kMostParts = 8;  // blocks of a cluster that every GPU has room for
constexpr int kWidth = 4;      // neighbouring elements that a thread finishes

/// The same place of all blocks of the cluster, summed in their order.
__device__ inline void sum_of_parts(uint32_t place, int parts, float (&sum)[kWidth]) {
  float4 all[kMostParts];
#pragma unroll
  for (int p = 0; p < kMostParts; ++p)
    if (p < parts)
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(all[p].x), "=f"(all[p].y), "=f"(all[p].z), "=f"(all[p].w)
                   : "r"(in_block(place, p))
                   : "memory");
  sum[0] = all[0].x, sum[1] = all[0].y, sum[2] = all[0].z, sum[3] = all[0].w;
#pragma unroll
  for (int p = 1; p < kMostParts; ++p)
    if (p < parts) sum[0] += all[p].x, sum[1] += all[p].y, sum[2] += all[p].z, sum[3] += all[p].w;
}

/// Adds the bias and stores what is asked for of C.
template <typename T>
__device__ inline void finish(const Shape& s, int row, int col, float (&sum)[kWidth]) {
  if (s.bias != nullptr) {
    const T* bias = static_cast<const T*>(s.bias) + col;  // where a state has it, on any address
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += to_float(bias[i]);
  }
  const Vec<T, kWidth> rounded = round_vec<T>(sum);
  const int64_t at = int64_t{row} * s.n + col;
  if (s.c != nullptr) store_vec(static_cast<T*>(s.c) + at, rounded);
  if (s.gelu == nullptr) return;
  to_floats(rounded, sum);
#pragma unroll
  for (float& x : sum) x = gelu(x);
  store_vec(static_cast<T*>(s.gelu) + at, sum);
}
#endif

template <typename W, typename T>
__device__ inline void product_that_follows(const CUtensorMap& a_map, const CUtensorMap& b_map,
                                            const Shape& shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t raw[];
  uint8_t* memory = raw + (1024 - shared_address(raw) % 1024) % 1024;
  __shared__ uint64_t barriers[W::kMostSlices];  // `has_code` asks for these
  const uint32_t base = shared_address(memory), came = shared_address(barriers);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int part = rank_in_cluster();
  const int first_row = static_cast<int>(blockIdx.y) * W::kRows;
  const int first_col = static_cast<int>(blockIdx.x) / shape.parts * W::kCols;
  const int all = (shape.k + kSlice - 1) / kSlice;
  const int begin = all * part / shape.parts, slices = all * (part + 1) / shape.parts - begin;
  const auto bring_b = [&] {
    for (int i = 0; i < slices; ++i) {
      expect(came + 8 * i, W::kSliceBytes);
      bring_box(base + i * W::kSliceBytes + W::kABytes, b_map, first_col, (begin + i) * kSlice, came + 8 * i);
    }
  };
  if (thread == 0) {
    for (int i = 0; i < slices; ++i) init_barrier(came + 8 * i, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (shape.b_is_settled) bring_b();
  }
  follow();
  if (thread == 0) {
    if (!shape.b_is_settled) bring_b();
    for (int i = 0; i < slices; ++i)
      bring_box(base + i * W::kSliceBytes, a_map, first_row, (begin + i) * kSlice, came + 8 * i);
  }
  __syncthreads();
  float d[W::kCols / 2] = {};
  multiply<W, T>(d, slices, base, came);
  __syncthreads();  // sums take the place of what is multiplied
  float* sums = reinterpret_cast<float*>(memory) + (warp * 16 + lane / 4) * W::kPitch + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < W::kCols / 8; ++j) {
    *reinterpret_cast<float2*>(sums + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
    *reinterpret_cast<float2*>(sums + 8 * j + 8 * W::kPitch) = make_float2(d[4 * j + 2], d[4 * j + 3]);
  }
  sync_cluster();
  constexpr int kAcross = W::kCols / kWidth;
  const int pieces = min(W::kRows, shape.m - first_row) * kAcross;
  for (int i = pieces * part / shape.parts + thread; i < pieces * (part + 1) / shape.parts;
       i += W::kThreads) {
    const int row = i / kAcross, col = i % kAcross * kWidth;
    if (first_col + col >= shape.n) continue;
    float sum[kWidth];
    sum_of_parts(base + (row * W::kPitch + col) * 4, shape.parts, sum);
    finish<T>(shape, first_row + row, first_col + col, sum);
  }
  sync_cluster();  // a block's memory is read until here
#else
  follow();
#endif
}

template <typename W, typename T>
__global__ void __launch_bounds__(W::kThreads)
    few_rows_product_kernel(const __grid_constant__ CUtensorMap a_map,
                            const __grid_constant__ CUtensorMap b_map, Shape shape) {
  product_that_follows<W, T>(a_map, b_map, shape);
}

template <int kGroups, int kCols, typename T>
cudaError_t launch(cudaStream_t stream, const Product& p, int parts) {
  using W = Tiling<kGroups, kCols>;
  CUtensorMap a, b;
  if (describe_boxes(a, p.a, p.type, p.m, p.k, W::kRows) != CUDA_SUCCESS ||
      describe_boxes(b, p.b, p.type, p.n, p.k, kCols) != CUDA_SUCCESS)
    return cudaErrorInvalidValue;
  const Shape shape{static_cast<int>(p.m),
                    static_cast<int>(p.n),
                    static_cast<int>(p.k),
                    parts,
                    p.b_is_settled,
                    p.bias,
                    p.gelu == nullptr || p.c_is_read ? p.c : nullptr,
                    p.gelu};
  const int64_t slices = ceil_div(ceil_div(p.k, kSlice), parts);
  const auto kernel = few_rows_product_kernel<W, T>;
  const size_t shared = W::shared(static_cast<int>(slices));
  const cudaError_t granted =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  if (granted != cudaSuccess) return granted;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(parts), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ceil_div(p.n, kCols) * parts),
                        static_cast<unsigned>(ceil_div(p.m, W::kRows)));
  config.blockDim = W::kThreads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, a, b, shape);
}

/// 64 rows in a tile where there are no more, else 128.
bool is_short(const Product& p) { return p.m <= 64; }

template <int kCols>
cudaError_t launch_cols(cudaStream_t stream, const Product& p, int parts) {
  const auto of_type = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return is_short(p) ? launch<1, kCols, T>(stream, p, parts) : launch<2, kCols, T>(stream, p, parts);
  };
  return p.type == DType::bf16 ? of_type(static_cast<__nv_bfloat16*>(nullptr))
                               : of_type(static_cast<__half*>(nullptr));
}

/// Whether the kernel was compiled for this GPU; else it is empty and has no barriers.
bool has_code() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, few_rows_product_kernel<Tiling<1, 16>, __nv_bfloat16>) ==
             cudaSuccess &&
         found.sharedSizeBytes > 0;
}

struct Way {
  cudaError_t (*launch)(cudaStream_t, const Product&, int parts);
  int most_slices, most_slices_short;
  int parts;
};
template <int kCols>
constexpr Way way(int parts) {
  return {launch_cols<kCols>, Tiling<2, kCols>::kMostSlices, Tiling<1, kCols>::kMostSlices, parts};
}
/// Choices that are written down name them by their places.
constexpr Way kWays[] = {way<16>(1), way<16>(2), way<16>(4), way<32>(1), way<32>(2), way<32>(4),
                         way<32>(8), way<64>(1), way<64>(2), way<64>(4), way<64>(8)};

}  // namespace

int few_rows_product_ways() { return static_cast<int>(std::size(kWays)); }

bool few_rows_product_accepts(const Product& p, int number) {
  if (number >= few_rows_product_ways() || p.m > kMostRows || p.type == DType::f32 || p.c_type != p.type)
    return false;
  const Way& way = kWays[number];
  const int64_t slices = ceil_div(p.k, kSlice);
  return !p.e4m3 && !p.a_transposed && p.b_transposed && p.addend == nullptr && p.k % 8 == 0 &&
         p.n % 8 == 0 && slices >= way.parts &&
         ceil_div(slices, way.parts) <= (is_short(p) ? way.most_slices_short : way.most_slices) &&
         aligned16(p.a, p.b, p.c, p.gelu) && has_code();
}

cudaError_t few_rows_product(cudaStream_t stream, const Product& p, int way) {
  return kWays[way].launch(stream, p, kWays[way].parts);
}

}  // namespace lathe::cuda
