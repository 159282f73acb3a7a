// The rows of a linear layer's logits on their way to a loss and to the logits' gradient.  A block takes a
// row.
#include "lathe/backends/cuda/kernels/losses/linear_cross_entropy.h"
#include "lathe/backends/cuda/kernels/reduce.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 512, kFour = 4;
constexpr int kAllThreads = 1024;
constexpr int kSumRowThreads = 8;

__device__ inline bool counts(int32_t label, int64_t classes) { return label >= 0 && label < classes; }

/// Up to four logits of a row from class j on, j a multiple of 4; −∞ beyond the last class.
__device__ inline void load_logits(const LogitRows& rows, const float* row, int64_t j, float (&z)[kFour]) {
  const Vec<float, kFour> four = load_vec<kFour>(row + j);
#pragma unroll
  for (int k = 0; k < kFour; ++k) {
    const bool inside = j + k < rows.classes;
    z[k] = !inside ? -INFINITY : rows.bias == nullptr ? four.at[k] : four.at[k] + rows.bias[j + k];
  }
}

/// The largest over a block, in every thread; as block_sum.
__device__ inline float block_max(float x, float* scratch) {
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = x;
  __syncthreads();
  for (int w = 0; w < kThreads / kWarp; ++w) x = fmaxf(x, scratch[w]);
  __syncthreads();
  return x;
}

__global__ void __launch_bounds__(kThreads)
    score_kernel(LogitRows rows, float smoothing, float* losses, float* lse, int32_t* right) {
  follow();
  __shared__ float scratch[kThreads / kWarp];
  __shared__ int whole[kThreads / kWarp];
  const int64_t i = blockIdx.x;
  const int32_t label = rows.labels[i];
  if (!counts(label, rows.classes)) {
    if (threadIdx.x == 0) losses[i] = 0, lse[i] = 0, right[i] = 0;
    return;
  }
  const float* row = rows.logits + i * rows.ld;
  const float of_label = row[label] + (rows.bias == nullptr ? 0.f : rows.bias[label]);
  // The largest logit so far, Σ e^(logit − largest), Σ logit, and the classes before which the label is not.
  float largest = -INFINITY, sum = 0, total = 0;
  int above = 0;
  for (int64_t j = int64_t{kFour} * threadIdx.x; j < rows.classes; j += int64_t{kFour} * kThreads) {
    float z[kFour];
    load_logits(rows, row, j, z);
    float top = largest;
#pragma unroll
    for (int k = 0; k < kFour; ++k) top = fmaxf(top, z[k]);
    const float origin = top == -INFINITY ? 0.f : top;
    if (top > largest) sum *= expf(largest - origin), largest = top;
#pragma unroll
    for (int k = 0; k < kFour; ++k) {
      sum += expf(z[k] - origin);
      if (j + k < rows.classes) total += z[k];
      above += z[k] > of_label || (z[k] == of_label && j + k < label);
    }
  }
  const float top = block_max(largest, scratch), origin = top == -INFINITY ? 0.f : top;
  sum = block_sum(sum * expf(largest - origin), scratch);
  total = smoothing == 0 ? 0.f : block_sum(total, scratch);
  above = block_sum(above, whole);
  if (threadIdx.x != 0) return;
  // A logit of −∞ elsewhere must not matter where nothing is spread.
  const float wanted = smoothing == 0
                           ? of_label
                           : of_label + smoothing * (total / static_cast<float>(rows.classes) - of_label);
  const float log_sum = logf(sum);
  losses[i] = log_sum + (top - wanted);
  lse[i] = top + log_sum;
  right[i] = above == 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    differentiate_kernel(LogitRows rows, float smoothing, const float* lse, const float* factor, T* d) {
  follow();
  const int64_t i = blockIdx.x;
  const int32_t label = rows.labels[i];
  const bool counted = counts(label, rows.classes);
  const float* row = rows.logits + i * rows.ld;
  T* to = d + i * rows.ld;
  const float by = *factor, log_sum = lse[i], everywhere = smoothing / static_cast<float>(rows.classes);
  for (int64_t j = int64_t{kFour} * threadIdx.x; j < rows.classes; j += int64_t{kFour} * kThreads) {
    float z[kFour] = {};
    if (counted) load_logits(rows, row, j, z);
#pragma unroll
    for (int k = 0; k < kFour; ++k) {
      const float log_p = z[k] - log_sum;
      const float rest = j + k == label ? expm1f(log_p) + smoothing : expf(log_p);
      z[k] = counted && j + k < rows.classes ? by * (rest - everywhere) : 0.f;
    }
    store_vec(to + j, z);
  }
}

/// A block: a column per lane, and kSumRowThreads of these along the rows.
template <typename T>
__global__ void __launch_bounds__(kWarp* kSumRowThreads)
    sum_rows_kernel(int64_t rows, int64_t cols, int64_t ld, const T* d, bool add, float* sums) {
  follow();
  __shared__ float parts[kSumRowThreads][kWarp];
  const int64_t col = int64_t{kWarp} * blockIdx.x + threadIdx.x;
  float sum = 0;
  if (col < cols)
#pragma unroll 4
    for (int64_t i = threadIdx.y; i < rows; i += kSumRowThreads) sum += to_float(d[i * ld + col]);
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
#pragma unroll
  for (int k = 1; k < kSumRowThreads; ++k) sum += parts[k][threadIdx.x];
  sums[col] = add ? sums[col] + sum : sum;
}

__device__ inline int counted_rows(int64_t rows, int64_t classes, const int32_t* labels, int* scratch) {
  int count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kAllThreads) count += counts(labels[i], classes);
  return block_sum(count, scratch);
}

__global__ void __launch_bounds__(kAllThreads)
    join_kernel(int64_t rows, int64_t classes, const int32_t* labels, const float* losses,
                const int32_t* right, float* loss, int32_t* correct) {
  follow();
  __shared__ double sums[kWarp];
  __shared__ int whole[kWarp];
  double sum = 0;
  int rights = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kAllThreads) sum += losses[i], rights += right[i];
  sum = block_sum(sum, sums);
  rights = block_sum(rights, whole);
  const int count = counted_rows(rows, classes, labels, whole);
  if (threadIdx.x != 0) return;
  *loss = count == 0 ? 0.f : static_cast<float>(sum / count);
  *correct = rights;
}

__global__ void __launch_bounds__(kAllThreads)
    factor_kernel(int64_t rows, int64_t classes, const int32_t* labels, const float* dloss, float* factor) {
  follow();
  __shared__ int whole[kWarp];
  const int count = counted_rows(rows, classes, labels, whole);
  if (threadIdx.x == 0) *factor = *dloss / static_cast<float>(max(count, 1));
}

}  // namespace

void score_rows(cudaStream_t stream, const LogitRows& rows, float* losses, float* lse, int32_t* right) {
  score_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0, stream>>>(
      rows, static_cast<float>(rows.smoothing), losses, lse, right);
}

void differentiate_rows(cudaStream_t stream, const LogitRows& rows, const float* lse, const float* factor,
                        DType t, void* d) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    differentiate_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0, stream>>>(
        rows, static_cast<float>(rows.smoothing), lse, factor, static_cast<T*>(d));
  });
}

void sum_rows(cudaStream_t stream, DType t, int64_t rows, int64_t cols, int64_t ld, const void* d, bool add,
              float* sums) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    sum_rows_kernel<<<static_cast<unsigned>(ceil_div(cols, kWarp)), dim3(kWarp, kSumRowThreads), 0, stream>>>(
        rows, cols, ld, static_cast<const T*>(d), add, sums);
  });
}

void join_rows(cudaStream_t stream, int64_t rows, int64_t classes, const int32_t* labels, const float* losses,
               const int32_t* right, float* loss, int32_t* correct) {
  join_kernel<<<1, kAllThreads, 0, stream>>>(rows, classes, labels, losses, right, loss, correct);
}

void factor_of_rows(cudaStream_t stream, int64_t rows, int64_t classes, const int32_t* labels,
                    const float* dloss, float* factor) {
  factor_kernel<<<1, kAllThreads, 0, stream>>>(rows, classes, labels, dloss, factor);
}

}  // namespace lathe::cuda
