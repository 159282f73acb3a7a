// Adafactor.  A matrix: the means of squares of each row and column, then its update.  A vector: all in one
// kernel.
#include "lathe/backends/cuda/kernels/optimizers/adafactor.h"
#include "lathe/backends/cuda/kernels/reduce.cuh"
#include "lathe/ops/optimizers/optimizer.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256, kAllThreads = 1024;
constexpr int64_t kChunks = 64;  // of rows, whose column sums are made at the same time
constexpr double kTiny = 1e-30;  // added to every squared gradient

/// What every element shares.
struct Step {
  const float *norm, *loss, *hyper;

  __device__ double at(Hyper which) const { return hyper[static_cast<int>(which)]; }
  __device__ bool apply() const { return isfinite(*norm) && isfinite(*loss); }
  __device__ double factor() const {
    const double most = at(Hyper::kMaxGradNorm), limit = *norm + 1e-6;
    return at(Hyper::kInverseScale) * (most > 0 && most < limit ? most / limit : 1);
  }
  __device__ void keep(float& kept, double now) const {
    const double take = at(Hyper::kTake);
    kept = static_cast<float>((1 - take) * kept + take * now);
  }
};

struct Matrix {
  int64_t rows, cols;
  const float* g;
  float *p, *kept;
  double* parts;    ///< [kChunks, cols]: sums of squares of a column
  double* squares;  ///< [rows]: of the update
  double* mean;     ///< [1]: of the rows' means
  double* by;       ///< [1]: learning rate, less where the update is clipped

  __device__ double root_of_row(int64_t row) const { return sqrt(*mean / kept[row]); }
  __device__ double root_of_column(int64_t col) const {
    return 1 / sqrt(static_cast<double>(kept[rows + col]));
  }
};

/// Σ over the threads of a block of what `f` gives for i = threadIdx.x, + kCount, … below n; in every
/// thread.
template <int kCount, typename F>
__device__ inline double sum_over(int64_t n, F f) {
  __shared__ double scratch[kCount / kWarp];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kCount) sum += f(i);
  return block_sum(sum, scratch);
}

__global__ void __launch_bounds__(kThreads) row_means_kernel(Matrix m, Step s) {
  follow();
  if (!s.apply()) return;
  const double factor = s.factor();
  const float* g = m.g + blockIdx.x * m.cols;
  const double sum = sum_over<kThreads>(m.cols, [&](int64_t i) {
    const double x = g[i] * factor;
    return x * x + kTiny;
  });
  if (threadIdx.x == 0) s.keep(m.kept[blockIdx.x], sum / static_cast<double>(m.cols));
}

__global__ void __launch_bounds__(kThreads) column_parts_kernel(Matrix m, Step s) {
  follow();
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x, chunk = blockIdx.y;
  if (col >= m.cols || !s.apply()) return;
  const double factor = s.factor();
  double sum = 0;
  for (int64_t row = m.rows * chunk / kChunks; row < m.rows * (chunk + 1) / kChunks; ++row) {
    const double x = m.g[row * m.cols + col] * factor;
    sum += x * x + kTiny;
  }
  m.parts[chunk * m.cols + col] = sum;
}

__global__ void __launch_bounds__(kThreads) column_means_kernel(Matrix m, Step s) {
  follow();
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= m.cols || !s.apply()) return;
  double sum = 0;
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) sum += m.parts[chunk * m.cols + col];
  s.keep(m.kept[m.rows + col], sum / static_cast<double>(m.rows));
}

__global__ void __launch_bounds__(kAllThreads) mean_kernel(Matrix m, Step s) {
  follow();
  if (!s.apply()) return;
  const double sum =
      sum_over<kAllThreads>(m.rows, [&](int64_t row) { return static_cast<double>(m.kept[row]); });
  if (threadIdx.x == 0) *m.mean = sum / static_cast<double>(m.rows);
}

__global__ void __launch_bounds__(kThreads) squares_kernel(Matrix m, Step s) {
  follow();
  if (!s.apply()) return;
  const double of_row = m.root_of_row(blockIdx.x) * s.factor();
  const float* g = m.g + blockIdx.x * m.cols;
  const double sum = sum_over<kThreads>(m.cols, [&](int64_t col) {
    const double x = of_row * m.root_of_column(col) * g[col];
    return x * x;
  });
  if (threadIdx.x == 0) m.squares[blockIdx.x] = sum;
}

/// The learning rate of an update whose squares sum up to this.
__device__ inline double clipped_rate(const Step& s, double squares, int64_t count, double clip_threshold) {
  const double rms = sqrt(squares / static_cast<double>(count));
  return s.at(Hyper::kLearningRate) * s.factor() / fmax(1.0, rms / clip_threshold);
}

__global__ void __launch_bounds__(kAllThreads) rate_kernel(Matrix m, Step s, double clip_threshold) {
  follow();
  if (!s.apply()) return;
  const double sum = sum_over<kAllThreads>(m.rows, [&](int64_t row) { return m.squares[row]; });
  if (threadIdx.x == 0) *m.by = clipped_rate(s, sum, m.rows * m.cols, clip_threshold);
}

__global__ void __launch_bounds__(kThreads) update_kernel(Matrix m, Step s, double weight_decay) {
  follow();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= m.rows * m.cols || !s.apply()) return;
  const int64_t row = i / m.cols;
  const double left = 1 - weight_decay * s.at(Hyper::kLearningRate);
  const double step = *m.by * m.root_of_row(row) * m.root_of_column(i - row * m.cols);
  m.p[i] = static_cast<float>(m.p[i] * left - step * m.g[i]);
}

/// One block.
__global__ void __launch_bounds__(kAllThreads)
    vector_kernel(Matrix v, Step s, double weight_decay, double clip_threshold) {
  follow();
  if (!s.apply()) return;
  const double factor = s.factor();
  const double sum = sum_over<kAllThreads>(v.cols, [&](int64_t i) {
    const double x = v.g[i] * factor;
    s.keep(v.kept[i], x * x + kTiny);
    return x * x / v.kept[i];
  });
  const double by = clipped_rate(s, sum, v.cols, clip_threshold);
  const double left = 1 - weight_decay * s.at(Hyper::kLearningRate);
  for (int64_t i = threadIdx.x; i < v.cols; i += kAllThreads)
    v.p[i] = static_cast<float>(v.p[i] * left - by * v.root_of_column(i) * v.g[i]);
}

unsigned blocks_of(int64_t n) { return static_cast<unsigned>(ceil_div(n, int64_t{kThreads})); }

}  // namespace

size_t adafactor_workspace_bytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(rows + kChunks * cols + 2) * sizeof(double);
}

void adafactor(cudaStream_t stream, const AdafactorTensor& t, const float* norm, const float* loss,
               const float* hyper, void* workspace) {
  const Step s{norm, loss, hyper};
  double* const at = static_cast<double*>(workspace);
  const Matrix m{t.rows, t.cols, t.g, t.p, t.kept, at + t.rows + 2, at + 2, at, at + 1};
  if (t.cols == 0) return;
  if (t.rows == 0) {
    vector_kernel<<<1, kAllThreads, 0, stream>>>(m, s, t.weight_decay, t.clip_threshold);
    return;
  }
  const unsigned rows = static_cast<unsigned>(t.rows);
  const dim3 parts(blocks_of(t.cols), kChunks);
  row_means_kernel<<<rows, kThreads, 0, stream>>>(m, s);
  column_parts_kernel<<<parts, kThreads, 0, stream>>>(m, s);
  column_means_kernel<<<blocks_of(t.cols), kThreads, 0, stream>>>(m, s);
  mean_kernel<<<1, kAllThreads, 0, stream>>>(m, s);
  squares_kernel<<<rows, kThreads, 0, stream>>>(m, s);
  rate_kernel<<<1, kAllThreads, 0, stream>>>(m, s, t.clip_threshold);
  update_kernel<<<blocks_of(t.rows * t.cols), kThreads, 0, stream>>>(m, s, t.weight_decay);
}

}  // namespace lathe::cuda
