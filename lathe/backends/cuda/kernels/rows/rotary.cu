// Rotary positions.  One block per token: first the angles of a head, which all heads share; then pieces of q
// and k together with their other halves, and those of v, which is copied.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 128;

/// Shared memory: cosines and sines [half].
template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    rotary_kernel(const __grid_constant__ Turn turn, const T* x, T* y) {
  follow();
  extern __shared__ float cosines[];
  const int half = turn.half, turned = 2 * turn.heads * half;
  float* const sines = cosines + half;
  const float position = static_cast<float>(turn.positions[blockIdx.x]);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < half; i += kThreads) {
    float s, c;
    sincosf(position * turn.frequencies[i], &s, &c);
    cosines[i] = c;
    sines[i] = turn.back ? -s : s;
  }
  __syncthreads();
  x += int64_t{3} * turned * blockIdx.x;
  y += int64_t{3} * turned * blockIdx.x;
  for (int at = thread * kWidth; at < turned; at += kThreads * kWidth) {
    const int i = at % half, first = 2 * (at - i) + i;
    const Vec<T, kWidth> a = load_vec<kWidth>(x + first), b = load_vec<kWidth>(x + first + half);
    float lower[kWidth], upper[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float c = cosines[i + j], s = sines[i + j], u = to_float(a.at[j]), v = to_float(b.at[j]);
      lower[j] = u * c - v * s;
      upper[j] = v * c + u * s;
    }
    store_vec(y + first, lower);
    store_vec(y + first + half, upper);
  }
  for (int at = 2 * turned + thread * kWidth; at < 3 * turned; at += kThreads * kWidth)
    store_vec(y + at, load_vec<kWidth>(x + at));
}

}  // namespace

void rotary(cudaStream_t stream, DType t, int64_t tokens, const Turn& turn, const void* x, void* y) {
  if (tokens == 0) return;
  const auto blocks = static_cast<unsigned>(tokens);
  const size_t bytes = 2 * sizeof(float) * static_cast<size_t>(turn.half);
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (turn.half % 8 == 0 && aligned16(from, static_cast<const T*>(to)))
      rotary_kernel<8><<<blocks, kThreads, bytes, stream>>>(turn, from, to);
    else
      rotary_kernel<1><<<blocks, kThreads, bytes, stream>>>(turn, from, to);
  });
}

}  // namespace lathe::cuda
