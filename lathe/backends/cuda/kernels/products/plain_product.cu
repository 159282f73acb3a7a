#include <algorithm>

#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/products/plain_product.h"
#include "lathe/backends/cuda/kernels/rows/column_sums.h"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kOwn = 4;  // a thread computes kOwn × kOwn elements
constexpr int64_t kFewBlocks = 132, kLeastTerms = 64;  // one per multiprocessor; terms of a part of a sum
constexpr int kNarrow = 16, kNarrowThreads = 128;      // rows or columns that a thread sums at once
constexpr int64_t kNarrowTerms = 32;

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
  int64_t ld;    ///< of C and addend
  float* parts;  ///< [parts][m, n]; null: the sums are whole

  __device__ void finish(float sum, int64_t row, int64_t col) const {
    const int64_t at = row * ld + col;
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
        result.finish(sum[i][j], r, q);
    }
}

/// Up to kNarrow columns, A[m,k] · B[n,k]ᵀ, as heads have them: a block sums a row.
template <typename T, typename C>
__global__ void __launch_bounds__(kNarrowThreads)
    narrow_columns_kernel(int n, int64_t k, const T* a, int64_t a_ld, const T* b, Result<C> result) {
  follow();
  const int64_t row = blockIdx.x;
  float sum[kNarrow] = {};
  for (int64_t t = threadIdx.x; t < k; t += kNarrowThreads) {
    const float x = to_float(a[row * a_ld + t]);
#pragma unroll
    for (int j = 0; j < kNarrow; ++j)
      if (j < n) sum[j] = fmaf(x, to_float(b[j * k + t]), sum[j]);
  }
  __shared__ float sums[kNarrow][kNarrowThreads / kWarp];
#pragma unroll
  for (int j = 0; j < kNarrow; ++j)
    if (j < n) {
      const float whole = warp_sum(sum[j]);
      if (threadIdx.x % kWarp == 0) sums[j][threadIdx.x / kWarp] = whole;
    }
  __syncthreads();
  const int col = static_cast<int>(threadIdx.x);
  if (col >= n) return;
  float total = 0;
  for (const float each : sums[col]) total += each;
  result.finish(total, row, col);
}

/// Up to kNarrow rows, A[k,m]ᵀ · B[k,n], the gradients of a head's weight: a thread sums a column.
template <typename T, typename C>
__global__ void __launch_bounds__(kNarrowThreads)
    narrow_rows_kernel(int m, int64_t n, int64_t k, int64_t part_terms, const T* a, int64_t a_ld, const T* b,
                       Result<C> result) {
  follow();
  const int64_t col = int64_t{blockIdx.x} * kNarrowThreads + threadIdx.x;
  if (col >= n) return;
  const int64_t first = part_terms * blockIdx.z, end = min(k, first + part_terms);
  float sum[kNarrow] = {};
#pragma unroll 4
  for (int64_t t = first; t < end; ++t) {
    const float y = to_float(b[t * n + col]);
#pragma unroll
    for (int i = 0; i < kNarrow; ++i)
      if (i < m) sum[i] = fmaf(to_float(a[t * a_ld + i]), y, sum[i]);
  }
#pragma unroll
  for (int i = 0; i < kNarrow; ++i) {
    if (i >= m) break;
    if (result.parts != nullptr)
      result.parts[(blockIdx.z * m + i) * n + col] = sum[i];
    else
      result.finish(sum[i], i, col);
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
  result.finish(sum, at / n, at % n);
}

bool has_few_columns(const Product& p) { return !p.a_transposed && p.b_transposed && p.n <= kNarrow; }
bool has_few_rows(const Product& p) { return p.a_transposed && !p.b_transposed && p.m <= kNarrow; }

int64_t tiles_of(const Product& p) {
  return has_few_rows(p) ? ceil_div(p.n, kNarrowThreads) : ceil_div(p.m, kTile) * ceil_div(p.n, kTile);
}

/// How many blocks share a sum, and the terms that each of them adds.
struct Parts {
  int64_t count, terms;
};
Parts parts_of(const Product& p) {
  if (has_few_columns(p)) return {1, p.k};
  const int64_t least = has_few_rows(p) ? kNarrowTerms : kLeastTerms;
  const int64_t most = std::max<int64_t>(1, std::min(kFewBlocks / tiles_of(p), ceil_div(p.k, least)));
  const int64_t terms = ceil_div(ceil_div(p.k, most), kDepth) * kDepth;
  return {std::max<int64_t>(1, ceil_div(p.k, terms)), terms};
}

template <typename T, typename C>
void launch_sums(cudaStream_t stream, const Product& p, const Parts& parts, const Result<C>& result) {
  const auto number = [](int64_t count) { return static_cast<unsigned>(count); };
  const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
  if (has_few_columns(p)) {
    narrow_columns_kernel<<<number(p.m), kNarrowThreads, 0, stream>>>(static_cast<int>(p.n), p.k, a, p.a_ld(),
                                                                      b, result);
  } else if (has_few_rows(p)) {
    const dim3 grid(number(tiles_of(p)), 1, number(parts.count));
    narrow_rows_kernel<<<grid, kNarrowThreads, 0, stream>>>(static_cast<int>(p.m), p.n, p.k, parts.terms, a,
                                                            p.a_ld(), b, result);
  } else {
    const dim3 grid(number(ceil_div(p.n, kTile)), number(ceil_div(p.m, kTile)), number(parts.count));
    product_kernel<T, C><<<grid, kThreads, 0, stream>>>(
        p.m, p.n, p.k, parts.terms, {a, p.a_transposed ? 1 : p.a_ld(), p.a_transposed ? p.a_ld() : 1},
        {b, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1}, result);
  }
}

template <typename T, typename C>
void launch(cudaStream_t stream, const Product& p, void* workspace) {
  const Parts parts = parts_of(p);
  const Result<C> result{static_cast<C*>(p.c), static_cast<const C*>(p.bias), static_cast<const C*>(p.addend),
                         p.c_ld(), parts.count > 1 ? static_cast<float*>(workspace) : nullptr};
  launch_sums<T>(stream, p, parts, result);
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
