// A block computes a tile of C, or a part of its sums over k; the blocks of a cluster hold all parts of one
// tile.  All threads fetch slices of 64 of k, split them into three parts of bf16 and lay these out in shared
// memory as the multiplying instructions read them; while these multiply, the next slice is split and the one
// after it is on its way.  Source: PTX ISA 9.0, "Asynchronous warpgroup level matrix instructions".
#include <algorithm>
#include <iterator>

#include "lathe/backends/cuda/kernels/products/f32_product.h"
#include "lathe/backends/cuda/kernels/products/warpgroup_product.cuh"
#include "lathe/backends/cuda/kernels/rows/gelu.cuh"
#include "lathe/backends/cuda/kernels/vector.cuh"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 2 * kProductGroup;
constexpr int kSplit = 3;  // parts of a number
constexpr int kWidth = 4;  // neighbouring elements that a thread fetches or finishes

/// Tiles of kRows × kCols elements of C.  Of the two groups of warps each has half of the rows or, with 64
/// rows, half of every slice of k.
template <int kRowsOf, int kColsOf>
struct Tiling {
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr bool kHalves = kRows == 64;  // of slices
  static constexpr int kSums = kHalves ? 2 : 1;
  static constexpr int kAPanels = kRows / kPanel, kPanels = kAPanels + kCols / kPanel;
  static constexpr int kABytes = kAPanels * kPanelBytes, kBBytes = (kPanels - kAPanels) * kPanelBytes;
  static constexpr int kStageBytes = kSplit * (kABytes + kBBytes);
  static constexpr size_t kShared = 2 * kStageBytes + 1024;     // 1024: to align
  static constexpr int kBlocks = kShared <= 100 << 10 ? 2 : 1;  // of a multiprocessor
  // When all is summed: rows of sums, of which no two of four begin in one bank.
  static constexpr int kPitch = kCols + 8, kSumBytes = kRows * kPitch * 4;
  static_assert((kRows == 64 || kRows == 128) && kSums * kSumBytes <= 2 * kStageBytes);
};

struct Shape {
  int m, n, k, parts;
  const float *a, *b;
  const float *bias, *addend;  ///< [n] on any address, [m,n]; or null
  float *c, *gelu, *a_sums;    ///< null where they are not stored
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int kAcross = kPanel / kWidth;                 // vectors of a row of a panel
constexpr int kFetched = kPanel / (kThreads / kAcross);  // vectors of a panel in a thread
constexpr int kMostParts = 8;                            // blocks of a cluster that every GPU has room for

/// Panels of an operand: rows of 64 neighbouring elements, of one row or column of C along k or (kAcrossK) of
/// one k along C's rows or columns, of which there are `count`.
template <bool kAcrossK, int kPanels>
__device__ inline void fetch(float4* to, const float* from, int count, int k, int first, int slice) {
  const int row = static_cast<int>(threadIdx.x) / kAcross,
            col = static_cast<int>(threadIdx.x) % kAcross * kWidth;
#pragma unroll
  for (int i = 0; i < kPanels * kFetched; ++i) {
    const int r = row + i % kFetched * (kThreads / kAcross);
    const int at_c = first + i / kFetched * kPanel + (kAcrossK ? col : r);
    const int at_k = slice * kSlice + (kAcrossK ? r : col);
    const int64_t at = kAcrossK ? int64_t{at_k} * count + at_c : int64_t{at_c} * k + at_k;
    to[i] = at_c < count && at_k < k ? *reinterpret_cast<const float4*>(from + at) : make_float4(0, 0, 0, 0);
  }
}

/// Two numbers rounded to bf16; leaves what is missing in them.
__device__ inline uint32_t take_part(float& x, float& y) {
  const __nv_bfloat162 part = __floats2bfloat162_rn(x, y);
  x -= __low2float(part), y -= __high2float(part);
  return *reinterpret_cast<const uint32_t*>(&part);
}

/// Splits what was fetched and lays the parts out, `plane` bytes apart, with the pieces of 16 bytes of a row
/// swizzled.
template <int kPanels>
__device__ inline void store_parts(uint32_t to, int plane, const float4* fetched) {
  const int row = static_cast<int>(threadIdx.x) / kAcross, col = static_cast<int>(threadIdx.x) % kAcross;
  const uint32_t place = to + row * kPanel * 2 + ((col / 2) ^ (row % 8)) * 16 + col % 2 * 8;
#pragma unroll
  for (int i = 0; i < kPanels * kFetched; ++i) {
    float4 x = fetched[i];
    const uint32_t at = place + i / kFetched * kPanelBytes + i % kFetched * (kThreads / kAcross) * kPanel * 2;
#pragma unroll
    for (int part = 0; part < kSplit; ++part) {
      const uint32_t low = take_part(x.x, x.y), high = take_part(x.z, x.w);
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at + part * plane), "r"(low), "r"(high)
                   : "memory");
    }
  }
}

/// Begins to sum the products of one slice in d, the small ones first.
template <typename W, bool kAcrossA, bool kAcrossB>
__device__ inline void multiply(float (&d)[W::kCols / 2], uint32_t stage) {
  constexpr int kTerms = 6, kDepth = kSlice / W::kSums;
  constexpr int kOfA[kTerms] = {0, 2, 1, 0, 1, 0}, kOfB[kTerms] = {2, 0, 1, 1, 0, 0};
  constexpr int kAStep = kAcrossA ? kPanel * 2 : 2, kBStep = kAcrossB ? kPanel * 2 : 2;  // bytes of one k
  const int group = static_cast<int>(threadIdx.x) / kProductGroup, begin = W::kHalves ? group * kDepth : 0;
  const uint32_t a = stage + (W::kHalves ? 0 : group * kPanelBytes) + begin * kAStep;
  const uint32_t b = stage + kSplit * W::kABytes + begin * kBStep;
  begin_slice();
#pragma unroll
  for (int term = 0; term < kTerms; ++term)
#pragma unroll
    for (int k = 0; k < kDepth; k += 16)
      multiply_slice<__nv_bfloat16, W::kCols, kAcrossA, kAcrossB>(
          d, describe_operand(a + kOfA[term] * W::kABytes + k * kAStep),
          describe_operand(b + kOfB[term] * W::kBBytes + k * kBStep));
  commit_slice();
}

/// The same place of all sums of the cluster, summed in order.
template <typename W>
__device__ inline void sum_of_parts(uint32_t place, int parts, float (&sum)[kWidth]) {
  float4 all[kMostParts];
#pragma unroll
  for (int s = 0; s < W::kSums; ++s) {
#pragma unroll
    for (int p = 0; p < kMostParts; ++p)
      if (p < parts)
        asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(all[p].x), "=f"(all[p].y), "=f"(all[p].z), "=f"(all[p].w)
                     : "r"(in_block(place + s * W::kSumBytes, p))
                     : "memory");
#pragma unroll
    for (int p = 0; p < kMostParts; ++p)
      if (p < parts) sum[0] += all[p].x, sum[1] += all[p].y, sum[2] += all[p].z, sum[3] += all[p].w;
  }
}

/// Adds bias and addend and stores what is asked for.
__device__ inline void finish(const Shape& s, int row, int col, float (&sum)[kWidth]) {
  if (s.bias != nullptr)
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += s.bias[col + i];
  const int64_t at = int64_t{row} * s.n + col;
  if (s.addend != nullptr) {
    const float4 more = *reinterpret_cast<const float4*>(s.addend + at);
    sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
  }
  if (s.c != nullptr) *reinterpret_cast<float4*>(s.c + at) = make_float4(sum[0], sum[1], sum[2], sum[3]);
  if (s.gelu != nullptr)
    *reinterpret_cast<float4*>(s.gelu + at) =
        make_float4(gelu(sum[0]), gelu(sum[1]), gelu(sum[2]), gelu(sum[3]));
}
#endif

template <typename W, bool kAcrossA, bool kAcrossB>
__global__ void __launch_bounds__(kThreads, W::kBlocks) f32_product_kernel(Shape shape) {
  follow();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ uint8_t raw[];
  __shared__ float4 sums_of_a[kThreads / kAcross][W::kRows / kWidth];  // `has_code` asks for it
  uint8_t* memory = raw + (1024 - shared_address(raw) % 1024) % 1024;
  const uint32_t base = shared_address(memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int part = rank_in_cluster();
  const int first_row = static_cast<int>(blockIdx.y) * W::kRows;
  const int first_col = static_cast<int>(blockIdx.x) / shape.parts * W::kCols;
  const int slices = (shape.k + kSlice - 1) / kSlice;
  const int begin = slices * part / shape.parts, end = slices * (part + 1) / shape.parts;
  const bool sums_a = kAcrossA && shape.a_sums != nullptr && first_col == 0;

  constexpr int kBPanels = W::kPanels - W::kAPanels;
  float4 a[W::kAPanels * kFetched], b[kBPanels * kFetched], a_sums[W::kAPanels] = {};
  const auto fetch_slice = [&](int slice) {
    fetch<kAcrossA, W::kAPanels>(a, shape.a, shape.m, shape.k, first_row, slice);
    fetch<kAcrossB, kBPanels>(b, shape.b, shape.n, shape.k, first_col, slice);
  };
  const auto store_slice = [&](int slice) {
    const uint32_t stage = base + (slice - begin) % 2 * W::kStageBytes;
    if (sums_a)
#pragma unroll
      for (int i = 0; i < W::kAPanels * kFetched; ++i) {
        float4& sum = a_sums[i / kFetched];
        sum.x += a[i].x, sum.y += a[i].y, sum.z += a[i].z, sum.w += a[i].w;
      }
    store_parts<W::kAPanels>(stage, W::kABytes, a);
    store_parts<kBPanels>(stage + kSplit * W::kABytes, W::kBBytes, b);
  };
  fetch_slice(begin);
  store_slice(begin);
  if (begin + 1 < end) fetch_slice(begin + 1);
  publish();
  __syncthreads();
  float total[W::kCols / 2] = {};
  for (int slice = begin; slice < end; ++slice) {
    float d[W::kCols / 2] = {};
    multiply<W, kAcrossA, kAcrossB>(d, base + (slice - begin) % 2 * W::kStageBytes);
    if (slice + 1 < end) store_slice(slice + 1);
    if (slice + 2 < end) fetch_slice(slice + 2);
    await_slices<0>();
#pragma unroll
    for (int i = 0; i < W::kCols / 2; ++i) total[i] += d[i];
    publish();
    __syncthreads();
  }

  // Sums take the place of what was multiplied.
  const int group = warp / 4, row = (W::kHalves ? 0 : group * 64) + warp % 4 * 16 + lane / 4;
  float* sums = reinterpret_cast<float*>(memory + (W::kHalves ? group * W::kSumBytes : 0)) + row * W::kPitch +
                lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < W::kCols / 8; ++j) {
    *reinterpret_cast<float2*>(sums + 8 * j) = make_float2(total[4 * j], total[4 * j + 1]);
    *reinterpret_cast<float2*>(sums + 8 * j + 8 * W::kPitch) =
        make_float2(total[4 * j + 2], total[4 * j + 3]);
  }
  if (sums_a)
#pragma unroll
    for (int panel = 0; panel < W::kAPanels; ++panel)
      sums_of_a[thread / kAcross][panel * kAcross + thread % kAcross] = a_sums[panel];
  sync_cluster();
  constexpr int kPieces = W::kCols / kWidth;
  const int pieces = min(W::kRows, shape.m - first_row) * kPieces;
  for (int i = pieces * part / shape.parts + thread; i < pieces * (part + 1) / shape.parts; i += kThreads) {
    const int r = i / kPieces, c = i % kPieces * kWidth;
    if (first_col + c >= shape.n) continue;
    float sum[kWidth] = {};
    sum_of_parts<W>(base + (r * W::kPitch + c) * 4, shape.parts, sum);
    finish(shape, first_row + r, first_col + c, sum);
  }
  if (sums_a && part == 0 && thread < W::kRows && first_row + thread < shape.m) {
    float sum = 0;
    for (int p = 0; p < shape.parts; ++p)
      for (int i = 0; i < kThreads / kAcross; ++i) {
        float one;
        const uint32_t at = shared_address(sums_of_a[i]) + thread * 4;
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(one) : "r"(in_block(at, p)) : "memory");
        sum += one;
      }
    shape.a_sums[first_row + thread] = sum;
  }
  sync_cluster();  // a block's memory is read until here
#endif
}

template <typename W>
dim3 grid_of(const Product& p, int parts) {
  return dim3(static_cast<unsigned>(ceil_div(p.n, W::kCols) * parts),
              static_cast<unsigned>(ceil_div(p.m, W::kRows)));
}

template <typename W>
cudaError_t launch(cudaStream_t stream, const Product& p, int parts) {
  const auto in = [](const void* x) { return static_cast<const float*>(x); };
  const Shape shape{static_cast<int>(p.m),
                    static_cast<int>(p.n),
                    static_cast<int>(p.k),
                    parts,
                    in(p.a),
                    in(p.b),
                    in(p.bias),
                    in(p.addend),
                    p.gelu == nullptr || p.c_is_read ? static_cast<float*>(p.c) : nullptr,
                    static_cast<float*>(p.gelu),
                    p.a_sums};
  const auto kernel = p.a_transposed   ? f32_product_kernel<W, true, true>
                      : p.b_transposed ? f32_product_kernel<W, false, false>
                                       : f32_product_kernel<W, false, true>;
  const cudaError_t granted =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(W::kShared));
  if (granted != cudaSuccess) return granted;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(parts), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid_of<W>(p, parts);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = W::kShared;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, shape);
}

/// Whether the kernel was compiled for this GPU; else it is empty and has no memory of its own.
bool has_code() {
  cudaFuncAttributes found{};
  return cudaFuncGetAttributes(&found, f32_product_kernel<Tiling<64, 64>, true, true>) == cudaSuccess &&
         found.sharedSizeBytes > 0;
}

struct Way {
  cudaError_t (*launch)(cudaStream_t, const Product&, int parts);
  dim3 (*grid_of)(const Product&, int parts);
  int parts;
};
template <int kRows, int kCols>
constexpr Way way(int parts) {
  return {launch<Tiling<kRows, kCols>>, grid_of<Tiling<kRows, kCols>>, parts};
}
/// Choices that are written down name them by their places.
constexpr Way kWays[] = {way<64, 64>(1),   way<64, 64>(2),  way<64, 64>(4),  way<64, 64>(8),
                         way<64, 128>(1),  way<64, 128>(2), way<64, 128>(4), way<128, 128>(1),
                         way<128, 128>(2), way<128, 128>(4)};

}  // namespace

int f32_product_ways() { return static_cast<int>(std::size(kWays)); }

bool f32_product_accepts(const Product& p, int way) {
  if (way >= f32_product_ways() || p.type != DType::f32 || p.c_type != DType::f32 || p.e4m3) return false;
  const bool layout = !(p.a_transposed && p.b_transposed) && (p.a_sums == nullptr || p.a_transposed);
  const auto whole = [](int64_t count) { return count % kWidth == 0; };
  return layout && whole(p.a_transposed ? p.m : p.k) && whole(p.b_transposed ? p.k : p.n) && whole(p.n) &&
         ceil_div(p.k, kSlice) >= kWays[way].parts && aligned16(p.a, p.b, p.c, p.addend, p.gelu) &&
         has_code();
}

int f32_product_blocks(const Product& p, int way) {
  const dim3 grid = kWays[way].grid_of(p, kWays[way].parts);
  return static_cast<int>(grid.x * grid.y);
}

cudaError_t f32_product(cudaStream_t stream, const Product& p, int way) {
  return kWays[way].launch(stream, p, kWays[way].parts);
}

}  // namespace lathe::cuda
