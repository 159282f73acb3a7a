#pragma once
// A function of one or two tensors, element by element.
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {

constexpr int kMapThreads = 256;
/// Vectors of a thread: as many independent loads per input are in flight.
constexpr int kMapVectors = 2;

/// y[i] = f(a[i]) or f(a[i], b[i]), with F::kInputs inputs.  y may be a or b.
template <int kWidth, typename In, typename Out, typename F>
__global__ void __launch_bounds__(kMapThreads) map_kernel(int64_t n, const In* a, const In* b, Out* y, F f) {
  follow();
  constexpr int64_t kStep = kMapThreads * kWidth;
  const int64_t first = kMapVectors * kStep * blockIdx.x + threadIdx.x * kWidth;
  const auto value = [&](float u, float v) {
    if constexpr (F::kInputs == 2)
      return f(u, v);
    else
      return f(u);
  };
  Vec<In, kWidth> u[kMapVectors], v[kMapVectors];
#pragma unroll
  for (int k = 0; k < kMapVectors; ++k) {
    const int64_t i = first + k * kStep;
    if (i + kWidth > n) continue;
    u[k] = load_vec<kWidth>(a + i);
    if constexpr (F::kInputs == 2) v[k] = load_vec<kWidth>(b + i);
  }
#pragma unroll
  for (int k = 0; k < kMapVectors; ++k) {
    const int64_t i = first + k * kStep;
    if (i + kWidth <= n) {
      float result[kWidth], other[kWidth] = {};
      to_floats(u[k], result);
      if constexpr (F::kInputs == 2) to_floats(v[k], other);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) result[j] = value(result[j], other[j]);
      store_vec(y + i, result);
    } else if constexpr (kWidth > 1) {
#pragma unroll 1
      for (int64_t j = i; j < n; ++j)
        y[j] = from_float<Out>(value(to_float(a[j]), F::kInputs == 2 ? to_float(b[j]) : 0.f));
    }
  }
}

/// Launches it: vectors of 16 bytes (of the smaller type) where all addresses allow them, single elements
/// elsewhere.  b is null where there is one input.
template <typename In, typename Out, typename F>
void map(cudaStream_t stream, int64_t n, const void* a, const void* b, void* y, F f) {
  constexpr int kWidth = 16 / (sizeof(In) < sizeof(Out) ? sizeof(In) : sizeof(Out));
  if (n == 0) return;
  const auto launch = [&](auto kernel, int64_t width) {
    const int64_t blocks = ceil_div(n, kMapThreads * kMapVectors * width);
    kernel<<<static_cast<unsigned>(blocks), kMapThreads, 0, stream>>>(
        n, static_cast<const In*>(a), static_cast<const In*>(b), static_cast<Out*>(y), f);
  };
  if (aligned16(a, b, static_cast<const void*>(y)))
    launch(map_kernel<kWidth, In, Out, F>, kWidth);
  else
    launch(map_kernel<1, In, Out, F>, 1);
}

}  // namespace lathe::cuda
