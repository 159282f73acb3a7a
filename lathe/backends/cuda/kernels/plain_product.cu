#include <algorithm>

#include "lathe/backends/cuda/kernels/column_sums.h"
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/plain_product.h"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kOwn = 4;  // a thread computes kOwn × kOwn elements
constexpr int64_t kFewBlocks = 132, kLeastTerms = 64;  // one per multiprocessor; terms of a part of a sum

/// Element (i, j) lies at i · row + j · col.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row, col;
};

/// Rows or columns [first, first + kTile) of an operand and kDepth of the sum's terms, as tile[term][index].
template <typename T>
__device__ void load_tile(const T* data, int64_t index_stride, int64_t term_stride, int64_t first,
                          int64_t count, int64_t term, int64_t terms, float (&tile)[kDepth][kTile + 1]) {
  const bool terms_lie_together = term_stride == 1;
  for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
    const int i = terms_lie_together ? e / kDepth : e % kTile;
    const int t = terms_lie_together ? e % kDepth : e / kTile;
    const bool inside = first + i < count && term + t < terms;
    tile[t][i] = inside ? to_float(data[(first + i) * index_stride + (term + t) * term_stride]) : 0.0f;
  }
}

/// What becomes of the sums: elements of C, or parts of sums in the workspace.
template <typename C>
struct Result {
  C* c;
  const C *bias, *addend;
  float* parts;  ///< [parts][m, n]; null: the sums are whole

  __device__ void finish(float sum, int64_t at, int64_t col) const {
    if (bias != nullptr) sum += to_float(bias[col]);
    if (addend != nullptr) sum += to_float(addend[at]);
    c[at] = from_float<C>(sum);
  }
};

template <typename T, typename C>
__global__ void __launch_bounds__(kThreads)
    product_kernel(int64_t m, int64_t n, int64_t k, int64_t part_terms, Matrix<T> a, Matrix<T> b,
                   Result<C> result) {
  follow();
  __shared__ float a_tile[kDepth][kTile + 1], b_tile[kDepth][kTile + 1];
  const int64_t row = int64_t{blockIdx.y} * kTile, col = int64_t{blockIdx.x} * kTile;
  const int ty = threadIdx.x / (kTile / kOwn), tx = threadIdx.x % (kTile / kOwn);
  float sum[kOwn][kOwn] = {};
  const int64_t first = part_terms * blockIdx.z, end = min(k, first + part_terms);
  for (int64_t term = first; term < end; term += kDepth) {
    load_tile(a.data, a.row, a.col, row, m, term, end, a_tile);
    load_tile(b.data, b.col, b.row, col, n, term, end, b_tile);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kDepth; ++t) {
      float x[kOwn], y[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        x[i] = a_tile[t][ty + i * (kTile / kOwn)];
        y[i] = b_tile[t][tx + i * (kTile / kOwn)];
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t r = row + ty + i * (kTile / kOwn), q = col + tx + j * (kTile / kOwn);
      if (r >= m || q >= n) continue;
      if (result.parts != nullptr)
        result.parts[(blockIdx.z * m + r) * n + q] = sum[i][j];
      else
        result.finish(sum[i][j], r * n + q, q);
    }
}

template <typename C>
__global__ void __launch_bounds__(kThreads)
    join_parts_kernel(int64_t elements, int64_t n, int64_t parts, Result<C> result) {
  follow();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= elements) return;
  float sum = 0;
#pragma unroll 8
  for (int64_t part = 0; part < parts; ++part) sum += result.parts[part * elements + at];
  result.finish(sum, at, at % n);
}

int64_t tiles_of(const Product& p) { return ceil_div(p.m, kTile) * ceil_div(p.n, kTile); }

/// How many blocks share a sum, and the terms that each of them adds.
struct Parts {
  int64_t count, terms;
};
Parts parts_of(const Product& p) {
  const int64_t most = std::max<int64_t>(1, std::min(kFewBlocks / tiles_of(p), ceil_div(p.k, kLeastTerms)));
  const int64_t terms = ceil_div(ceil_div(p.k, most), kDepth) * kDepth;
  return {std::max<int64_t>(1, ceil_div(p.k, terms)), terms};
}

template <typename T, typename C>
void launch(cudaStream_t stream, const Product& p, void* workspace) {
  const Matrix<T> a{static_cast<const T*>(p.a), p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1};
  const Matrix<T> b{static_cast<const T*>(p.b), p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1};
  const Parts parts = parts_of(p);
  const Result<C> result{static_cast<C*>(p.c), static_cast<const C*>(p.bias), static_cast<const C*>(p.addend),
                         parts.count > 1 ? static_cast<float*>(workspace) : nullptr};
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kTile)), static_cast<unsigned>(ceil_div(p.m, kTile)),
                  static_cast<unsigned>(parts.count));
  product_kernel<T, C><<<grid, kThreads, 0, stream>>>(p.m, p.n, p.k, parts.terms, a, b, result);
  if (parts.count > 1)
    join_parts_kernel<<<static_cast<unsigned>(ceil_div(p.m * p.n, kThreads)), kThreads, 0, stream>>>(
        p.m * p.n, p.n, parts.count, result);
}

}  // namespace

void plain_product(cudaStream_t stream, const Product& p, void* workspace) {
  with_type(p.type, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    if (p.c_type == DType::f32)
      launch<T, float>(stream, p, workspace);
    else
      launch<T, T>(stream, p, workspace);
  });
  if (p.a_sums != nullptr) column_sums(stream, p.type, p.k, p.m, p.a, p.a_sums, workspace);
}

size_t plain_product_workspace_bytes(const Product& p) {
  const int64_t parts = parts_of(p).count;
  return std::max(parts > 1 ? static_cast<size_t>(parts * p.m * p.n) * sizeof(float) : 0,
                  p.a_transposed ? column_sums_workspace_bytes(p.k, p.m) : 0);
}

}  // namespace lathe::cuda
