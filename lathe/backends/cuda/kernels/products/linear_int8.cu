// Rows to integers, padded with zeros to a multiple of 16, then a product of tiles by dp4a, whose sums of 32
// bits are exact: 2³¹ / 127² is more than 133 000 terms; longer rows are added up in double.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/products/linear_int8.h"

namespace lathe::cuda {
namespace {

/// Bytes of a row of integers are a multiple of this.
constexpr int64_t kPad = 16;
int64_t pitch_of(int64_t k) { return ceil_div(k, kPad) * kPad; }

/// Rounds row blockIdx.x of x to value[row · pitch …] and its scale; NaN if a number is not finite.
constexpr int kRowThreads = 128;
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    round_kernel(int64_t k, int64_t pitch, const T* x, int8_t* value, float* scale) {
  follow();
  __shared__ float of_warps[kRowThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const T* row = x + blockIdx.x * k;
  float largest = 0;  // infinity if a number is not finite
  for (int64_t c = thread; c < k; c += kRowThreads) {
    const float v = fabsf(to_float(row[c]));
    largest = fmaxf(largest, isfinite(v) ? v : INFINITY);
  }
  largest = warp_max(largest);
  if (thread % kWarp == 0) of_warps[thread / kWarp] = largest;
  __syncthreads();
  for (const float of_warp : of_warps) largest = fmaxf(largest, of_warp);
  const bool finite = largest < INFINITY, zero = largest < 0x1p-100f;
  if (thread == 0)
    scale[blockIdx.x] = !finite ? __int_as_float(0x7fffffff) : zero ? 0.f : __fdiv_rn(largest, 127.f);
  // v · inverse is exact in double: 24 bits times 24 bits
  const double inverse = finite && !zero ? static_cast<double>(__fdiv_rn(127.f, largest)) : 0.0;
  for (int64_t c = thread; c < pitch; c += kRowThreads) {
    const bool counts = c < k && finite && !zero;
    value[blockIdx.x * pitch + c] =
        static_cast<int8_t>(counts ? __double2int_rn(static_cast<double>(to_float(row[c])) * inverse) : 0);
  }
}

/// A tile of y: kTile rows and columns; a thread computes kOwn × kOwn elements that lie kStride apart.
constexpr int kTile = 64, kOwn = 4, kStride = kTile / kOwn, kThreads = kStride * kStride;
/// Words of four integers of a step along k, and after how many steps sums of 32 bits are emptied.
constexpr int kWords = 4, kStepsExact = 133000 / (4 * kWords);

/// Words [word, word + kWords) of kTile rows, as tile[word][row].
__device__ inline void load_tile(const int* value, int64_t rows, int64_t words, int64_t first, int64_t word,
                                 int (&tile)[kWords][kTile + 1]) {
  static_assert(kTile * kWords == kThreads);
  const int row = static_cast<int>(threadIdx.x) / kWords, w = static_cast<int>(threadIdx.x) % kWords;
  tile[w][row] = first + row < rows ? value[(first + row) * words + word + w] : 0;
}

struct Operands {
  const int *x, *w;
  const float *x_scale, *w_scale, *bias;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    product_kernel(int64_t m, int64_t n, int64_t words, Operands in, T* y) {
  follow();
  __shared__ int x_tile[kWords][kTile + 1], w_tile[kWords][kTile + 1];
  const int64_t row = int64_t{kTile} * blockIdx.y, col = int64_t{kTile} * blockIdx.x;
  const int ty = static_cast<int>(threadIdx.x) / kStride, tx = static_cast<int>(threadIdx.x) % kStride;
  double total[kOwn][kOwn] = {};
  for (int64_t begin = 0; begin < words; begin += int64_t{kStepsExact} * kWords) {
    int sum[kOwn][kOwn] = {};
    const int64_t end = min(words, begin + int64_t{kStepsExact} * kWords);
    for (int64_t word = begin; word < end; word += kWords) {
      load_tile(in.x, m, words, row, word, x_tile);
      load_tile(in.w, n, words, col, word, w_tile);
      __syncthreads();
#pragma unroll
      for (int w = 0; w < kWords; ++w)
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            sum[i][j] = __dp4a(x_tile[w][ty + i * kStride], w_tile[w][tx + j * kStride], sum[i][j]);
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) total[i][j] += sum[i][j];
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t r = row + ty + i * kStride, c = col + tx + j * kStride;
      if (r >= m || c >= n) continue;
      const double scale = static_cast<double>(in.x_scale[r]) * static_cast<double>(in.w_scale[c]);
      const double bias = in.bias == nullptr ? 0.0 : static_cast<double>(in.bias[c]);
      y[r * n + c] = from_float<T>(static_cast<float>(total[i][j] * scale + bias));
    }
}

/// Integers and scales of x, then those of w.
struct Layout {
  int64_t pitch;
  size_t x_scale, w, w_scale, bytes;

  Layout(int64_t m, int64_t n, int64_t k) : pitch(pitch_of(k)) {
    const auto whole = [](int64_t size) { return static_cast<size_t>(ceil_div(size, kPad) * kPad); };
    x_scale = whole(m * pitch);
    w = x_scale + whole(m * 4);
    w_scale = w + whole(n * pitch);
    bytes = w_scale + whole(n * 4);
  }
};

template <typename T>
void round_rows(cudaStream_t stream, int64_t rows, int64_t k, int64_t pitch, const T* x, std::byte* value,
                std::byte* scale) {
  round_kernel<T><<<static_cast<unsigned>(rows), kRowThreads, 0, stream>>>(
      k, pitch, x, reinterpret_cast<int8_t*>(value), reinterpret_cast<float*>(scale));
}

}  // namespace

void linear_int8(cudaStream_t stream, DType t, int64_t m, int64_t n, int64_t k, const void* x, const float* w,
                 const float* b, void* y, void* workspace) {
  if (m == 0 || n == 0) return;
  const Layout at(m, n, k);
  std::byte* base = static_cast<std::byte*>(workspace);
  round_rows(stream, n, k, at.pitch, w, base + at.w, base + at.w_scale);
  const Operands in{reinterpret_cast<const int*>(base), reinterpret_cast<const int*>(base + at.w),
                    reinterpret_cast<const float*>(base + at.x_scale),
                    reinterpret_cast<const float*>(base + at.w_scale), b};
  const dim3 grid(static_cast<unsigned>(ceil_div(n, kTile)), static_cast<unsigned>(ceil_div(m, kTile)));
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    round_rows(stream, m, k, at.pitch, static_cast<const T*>(x), base, base + at.x_scale);
    product_kernel<T><<<grid, kThreads, 0, stream>>>(m, n, at.pitch / 4, in, static_cast<T*>(y));
  });
}

size_t linear_int8_workspace_bytes(int64_t m, int64_t n, int64_t k) { return Layout(m, n, k).bytes; }

}  // namespace lathe::cuda
