#include "lathe/backends/cuda/kernels/column_sums.h"
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/plain_product.h"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kOwn = 4;  // a thread computes kOwn × kOwn elements

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

template <typename T, typename C>
__global__ void __launch_bounds__(kThreads)
    product_kernel(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, const C* bias, const C* addend,
                   C* c) {
  __shared__ float a_tile[kDepth][kTile + 1], b_tile[kDepth][kTile + 1];
  const int64_t row = int64_t{blockIdx.y} * kTile, col = int64_t{blockIdx.x} * kTile;
  const int ty = threadIdx.x / (kTile / kOwn), tx = threadIdx.x % (kTile / kOwn);
  float sum[kOwn][kOwn] = {};
  for (int64_t term = 0; term < k; term += kDepth) {
    load_tile(a.data, a.row, a.col, row, m, term, k, a_tile);
    load_tile(b.data, b.col, b.row, col, n, term, k, b_tile);
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
      float value = sum[i][j];
      if (bias != nullptr) value += to_float(bias[q]);
      if (addend != nullptr) value += to_float(addend[r * n + q]);
      c[r * n + q] = from_float<C>(value);
    }
}

template <typename T, typename C>
void launch(cudaStream_t stream, const Product& p) {
  const Matrix<T> a{static_cast<const T*>(p.a), p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1};
  const Matrix<T> b{static_cast<const T*>(p.b), p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1};
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kTile)), static_cast<unsigned>(ceil_div(p.m, kTile)));
  product_kernel<T, C><<<grid, kThreads, 0, stream>>>(p.m, p.n, p.k, a, b, static_cast<const C*>(p.bias),
                                                      static_cast<const C*>(p.addend), static_cast<C*>(p.c));
}

}  // namespace

void plain_product(cudaStream_t stream, const Product& p, void* workspace) {
  with_type(p.type, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    if (p.c_type == DType::f32)
      launch<T, float>(stream, p);
    else
      launch<T, T>(stream, p);
  });
  if (p.a_sums != nullptr) column_sums(stream, p.type, p.k, p.m, p.a, p.a_sums, workspace);
}

}  // namespace lathe::cuda
