// Layer normalisation, plain and of residual + dropout(x).  One warp per row, which it holds in registers up
// to 1024 columns; the mean first, then the squares of the deviations from it.
#include "lathe/backends/cuda/kernels/rows/dropout.cuh"
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kBlockRows = kThreads / kWarp;
/// Columns of one vector per lane, and the most vectors that a lane holds.
constexpr int64_t kVectorCols = 8 * kWarp, kMostVectors = 4;

/// What is normalised: x as it is.
template <typename T>
struct Plain {
  using Type = T;
  const T* x;

  struct Row {
    const T* x;
    template <int kWidth>
    struct Raw {
      Vec<T, kWidth> x;
    };
    template <int kWidth>
    __device__ Raw<kWidth> load(int64_t col) const {
      return {load_vec<kWidth>(x + col)};
    }
    template <int kWidth>
    __device__ void value(int64_t, const Raw<kWidth>& raw, float (&to)[kWidth]) const {
      to_floats(raw.x, to);
    }
    /// The same value once more.
    template <int kWidth>
    __device__ void again(int64_t col, float (&to)[kWidth]) const {
      value(col, load<kWidth>(col), to);
    }
  };
  __device__ Row row(int64_t r, int64_t cols) const { return {x + r * cols}; }
};

/// What is normalised: residual + dropout(x), which `value` stores.
template <typename T>
struct Sum {
  using Type = T;
  const T *x, *residual;
  T* sum;
  DropoutSite site;

  struct Row {
    const T *x, *residual;
    T* sum;
    DropoutRow dropout;
    template <int kWidth>
    struct Raw {
      Vec<T, kWidth> x, residual;
    };
    template <int kWidth>
    __device__ Raw<kWidth> load(int64_t col) const {
      return {load_vec<kWidth>(x + col), load_vec<kWidth>(residual + col)};
    }
    template <int kWidth>
    __device__ void value(int64_t col, const Raw<kWidth>& raw, float (&to)[kWidth]) const {
      float residual[kWidth];
      to_floats(raw.x, to);
      to_floats(raw.residual, residual);
      dropout.apply(col, to);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) to[j] += residual[j];
      const Vec<T, kWidth> stored = round_vec<T>(to);
      store_vec(sum + col, stored);
      to_floats(stored, to);
    }
    template <int kWidth>
    __device__ void again(int64_t col, float (&to)[kWidth]) const {
      to_floats(load_vec<kWidth>(sum + col), to);
    }
  };
  __device__ Row row(int64_t r, int64_t cols) const {
    return {x + r * cols, residual + r * cols, sum + r * cols, site.row(r)};
  }
};

/// What is normalised: the sum of three rows of tables, which `value` stores.
template <typename T>
struct Looked {
  using Type = float;
  Embeddings e;
  float* sum;

  struct Row {
    const T *word, *token_type, *position;
    float* sum;
    template <int kWidth>
    struct Raw {
      Vec<T, kWidth> word, token_type, position;
    };
    template <int kWidth>
    __device__ Raw<kWidth> load(int64_t col) const {
      return {load_vec<kWidth>(word + col), load_vec<kWidth>(token_type + col),
              load_vec<kWidth>(position + col)};
    }
    template <int kWidth>
    __device__ void value(int64_t col, const Raw<kWidth>& raw, float (&to)[kWidth]) const {
      float type[kWidth], position[kWidth];
      to_floats(raw.word, to), to_floats(raw.token_type, type), to_floats(raw.position, position);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) to[j] = to[j] + type[j] + position[j];
      store_vec(sum + col, to);
    }
    template <int kWidth>
    __device__ void again(int64_t col, float (&to)[kWidth]) const {
      const Vec<float, kWidth> v = load_vec<kWidth>(sum + col);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) to[j] = v.at[j];
    }
  };
  __device__ Row row(int64_t r, int64_t cols) const {
    const auto part = [&](const void* table, int32_t id) { return static_cast<const T*>(table) + id * cols; };
    return {part(e.word, e.ids[r]), part(e.token_type, e.type_ids[r]), part(e.position, e.position_ids[r]),
            sum + r * cols};
  }
};

/// Where the normalised rows go, after dropout.
template <typename T>
struct Normal {
  const float *gamma, *beta;
  float eps;
  T* y;
  float *mean, *rstd;
  DropoutSite site = {};
};

struct Statistics {
  float mean, rstd;
};

template <int kWidth, typename T>
__device__ inline void store_normal(const Normal<T>& n, int64_t at, int64_t col, const Statistics& s,
                                    const DropoutRow& dropout, float (&x)[kWidth]) {
  const Vec<float, kWidth> gamma = load_vec<kWidth>(n.gamma + col);
  Vec<float, kWidth> beta{};
  if (n.beta != nullptr) beta = load_vec<kWidth>(n.beta + col);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) x[j] = (x[j] - s.mean) * s.rstd * gamma.at[j] + beta.at[j];
  dropout.apply(col, x);
  store_vec(n.y + at + col, x);
}

/// cols is a multiple of 8 and at most 256 kVectors.
template <int kVectors, typename Source, typename T>
__global__ void __launch_bounds__(kThreads) held_kernel(int64_t rows, int cols, Source source, Normal<T> n) {
  follow();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{kBlockRows} * blockIdx.x + threadIdx.x / kWarp;
  if (r >= rows) return;
  const auto row = source.row(r, cols);
  const auto col = [&](int v) { return 8 * (lane + kWarp * v); };
  typename Source::Row::template Raw<8> raw[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    if (col(v) < cols) raw[v] = row.template load<8>(col(v));
  float x[kVectors][8] = {}, sum = 0, squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if (col(v) < cols) row.value(col(v), raw[v], x[v]);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += x[v][j];
  }
  const float mean = warp_sum(sum) / static_cast<float>(cols);
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    if (col(v) < cols) {
#pragma unroll
      for (int j = 0; j < 8; ++j) squares += (x[v][j] - mean) * (x[v][j] - mean);
    }
  const Statistics s{mean, 1 / sqrtf(warp_sum(squares) / static_cast<float>(cols) + n.eps)};
  const DropoutRow dropout = n.site.row(r);
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    if (col(v) < cols) store_normal(n, r * cols, col(v), s, dropout, x[v]);
  if (lane == 0) n.mean[r] = s.mean, n.rstd[r] = s.rstd;
}

/// Any number of columns; the row is read three times.
template <int kWidth, typename Source, typename T>
__global__ void __launch_bounds__(kThreads)
    reread_kernel(int64_t rows, int64_t cols, Source source, Normal<T> n) {
  follow();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{kBlockRows} * blockIdx.x + threadIdx.x / kWarp;
  if (r >= rows) return;
  const auto row = source.row(r, cols);
  float sum = 0, squares = 0;
  for (int64_t col = lane * kWidth; col < cols; col += kWarp * kWidth) {
    float x[kWidth];
    row.value(col, row.template load<kWidth>(col), x);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum += x[j];
  }
  const float mean = warp_sum(sum) / static_cast<float>(cols);
  for (int64_t col = lane * kWidth; col < cols; col += kWarp * kWidth) {
    float x[kWidth];
    row.again(col, x);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) squares += (x[j] - mean) * (x[j] - mean);
  }
  const Statistics s{mean, 1 / sqrtf(warp_sum(squares) / static_cast<float>(cols) + n.eps)};
  const DropoutRow dropout = n.site.row(r);
  for (int64_t col = lane * kWidth; col < cols; col += kWarp * kWidth) {
    float x[kWidth];
    row.again(col, x);
    store_normal(n, r * cols, col, s, dropout, x);
  }
  if (lane == 0) n.mean[r] = s.mean, n.rstd[r] = s.rstd;
}

template <typename Source, typename T>
void normalise(cudaStream_t stream, RowsSize s, bool vectors, const Source& source, const Normal<T>& n) {
  if (s.rows == 0 || s.cols == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(s.rows, kBlockRows));
  const auto held = [&](auto kernel) {
    kernel<<<blocks, kThreads, 0, stream>>>(s.rows, static_cast<int>(s.cols), source, n);
  };
  if (!vectors)
    reread_kernel<1><<<blocks, kThreads, 0, stream>>>(s.rows, s.cols, source, n);
  else if (s.cols > kMostVectors * kVectorCols)
    reread_kernel<8><<<blocks, kThreads, 0, stream>>>(s.rows, s.cols, source, n);
  else if (s.cols <= kVectorCols)
    held(held_kernel<1, Source, T>);
  else if (s.cols <= 2 * kVectorCols)
    held(held_kernel<2, Source, T>);
  else if (s.cols <= 3 * kVectorCols)
    held(held_kernel<3, Source, T>);
  else
    held(held_kernel<4, Source, T>);
}

}  // namespace

void layer_norm(cudaStream_t stream, DType t, RowsSize s, const void* x, const float* gamma,
                const float* beta, float eps, void* y, float* mean, float* rstd) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 && aligned16(x, gamma, beta, static_cast<const void*>(y));
    normalise(stream, s, vectors, Plain<T>{static_cast<const T*>(x)},
              Normal<T>{gamma, beta, eps, static_cast<T*>(y), mean, rstd});
  });
}

void embed_layer_norm(cudaStream_t stream, RowsSize s, const Embeddings& e, const float* gamma,
                      const float* beta, float eps, float* sum, float* y, float* mean, float* rstd) {
  const bool vectors = s.cols % 8 == 0 && aligned16(e.word, e.token_type, e.position, gamma, beta, sum, y);
  with_type(e.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    normalise(stream, s, vectors, Looked<T>{e, sum}, Normal<float>{gamma, beta, eps, y, mean, rstd});
  });
}

void embed_layer_norm_dropout(cudaStream_t stream, RowsSize s, const Embeddings& e, const float* gamma,
                              const float* beta, float eps, const DropoutRule& rule,
                              const int32_t* sample_ids, const int32_t* positions, float* sum, void* z,
                              float* mean, float* rstd) {
  __nv_bfloat16* const to = static_cast<__nv_bfloat16*>(z);
  const bool vectors = s.cols % 8 == 0 && aligned16(e.word, e.token_type, e.position, gamma, beta, sum,
                                                    static_cast<const float*>(z));
  with_type(e.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    normalise(stream, s, vectors, Looked<T>{e, sum},
              Normal<__nv_bfloat16>{gamma, beta, eps, to, mean, rstd, {rule, sample_ids, positions}});
  });
}

void dropout_add_layer_norm(cudaStream_t stream, DType t, RowsSize s, const DropoutRule& rule,
                            const int32_t* sample_ids, const int32_t* positions, const void* x, const void* r,
                            const float* gamma, const float* beta, float eps, void* sum, void* y, float* mean,
                            float* rstd) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const bool vectors = s.cols % 8 == 0 && aligned16(x, r, gamma, beta, static_cast<const void*>(sum),
                                                      static_cast<const void*>(y));
    normalise(stream, s, vectors,
              Sum<T>{static_cast<const T*>(x),
                     static_cast<const T*>(r),
                     static_cast<T*>(sum),
                     {rule, sample_ids, positions}},
              Normal<T>{gamma, beta, eps, static_cast<T*>(y), mean, rstd});
  });
}

}  // namespace lathe::cuda
