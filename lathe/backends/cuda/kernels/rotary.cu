// Rotary positions.  One thread per pair of columns of q and k, and as many that copy v.
#include "lathe/backends/cuda/kernels/common.cuh"
#include "lathe/backends/cuda/kernels/rows.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;

/// pairs: those of a token's q, k and v.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rotary_kernel(int64_t tokens, int pairs, const __grid_constant__ Turn turn, const T* x, T* y) {
  follow();
  const int64_t index = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (index >= tokens * pairs) return;
  const int64_t token = index / pairs;
  const int pair = static_cast<int>(index % pairs), head = pair / turn.half, i = pair % turn.half;
  const int64_t at = token * 2 * pairs + int64_t{head} * 2 * turn.half + i, other = at + turn.half;
  if (head >= 2 * turn.heads) {
    y[at] = x[at];
    y[other] = x[other];
    return;
  }
  float s, c;
  sincosf(static_cast<float>(turn.positions[token]) * turn.frequencies[i], &s, &c);
  if (turn.back) s = -s;
  const float a = to_float(x[at]), b = to_float(x[other]);
  y[at] = from_float<T>(a * c - b * s);
  y[other] = from_float<T>(b * c + a * s);
}

}  // namespace

void rotary(cudaStream_t stream, DType t, int64_t tokens, const Turn& turn, const void* x, void* y) {
  const int pairs = 3 * turn.heads * turn.half;
  if (tokens == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    rotary_kernel<<<static_cast<unsigned>(ceil_div(tokens * pairs, kThreads)), kThreads, 0, stream>>>(
        tokens, pairs, turn, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

}  // namespace lathe::cuda
