// add, mul, scale, cast, and the activations with their derivatives.
#include "lathe/backends/cuda/kernels/map.cuh"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/kernels/rows/gelu.cuh"

namespace lathe::cuda {
namespace {

struct Add {
  static constexpr int kInputs = 2;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Mul {
  static constexpr int kInputs = 2;
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Scale {
  static constexpr int kInputs = 1;
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Same {
  static constexpr int kInputs = 1;
  __device__ float operator()(float x) const { return x; }
};
struct Relu {
  static constexpr int kInputs = 1;
  __device__ float operator()(float x) const { return x > 0 ? x : 0; }
};
struct ReluBwd {
  static constexpr int kInputs = 2;
  __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0; }
};
struct Tanh {
  static constexpr int kInputs = 1;
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct TanhBwd {
  static constexpr int kInputs = 2;
  __device__ float operator()(float dy, float y) const { return dy * (1 - y * y); }
};
struct Gelu {
  static constexpr int kInputs = 1;
  __device__ float operator()(float x) const { return gelu(x); }
};
struct GeluBwd {
  static constexpr int kInputs = 2;
  __device__ float operator()(float dy, float x) const { return dy * gelu_slope(x); }
};

/// Input and output of one storage type.
template <typename F>
void map_same(cudaStream_t stream, DType t, int64_t n, const void* a, const void* b, void* y, F f) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    map<T, T>(stream, n, a, b, y, f);
  });
}

}  // namespace

void add(cudaStream_t stream, DType t, int64_t n, const void* a, const void* b, void* y) {
  map_same(stream, t, n, a, b, y, Add{});
}
void mul(cudaStream_t stream, DType t, int64_t n, const void* a, const void* b, void* y) {
  map_same(stream, t, n, a, b, y, Mul{});
}
void scale(cudaStream_t stream, DType t, int64_t n, const void* x, float factor, void* y) {
  map_same(stream, t, n, x, nullptr, y, Scale{factor});
}

void cast(cudaStream_t stream, DType from, DType to, int64_t n, const void* x, void* y) {
  with_type(from, [&](auto* in) {
    with_type(to, [&](auto* out) {
      using In = std::remove_pointer_t<decltype(in)>;
      using Out = std::remove_pointer_t<decltype(out)>;
      map<In, Out>(stream, n, x, nullptr, y, Same{});
    });
  });
}

void relu(cudaStream_t stream, DType t, int64_t n, const void* x, void* y) {
  map_same(stream, t, n, x, nullptr, y, Relu{});
}
void relu_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* y, void* dx) {
  map_same(stream, t, n, dy, y, dx, ReluBwd{});
}
void tanh(cudaStream_t stream, DType t, int64_t n, const void* x, void* y) {
  map_same(stream, t, n, x, nullptr, y, Tanh{});
}
void tanh_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* y, void* dx) {
  map_same(stream, t, n, dy, y, dx, TanhBwd{});
}
void gelu(cudaStream_t stream, DType t, int64_t n, const void* x, void* y) {
  map_same(stream, t, n, x, nullptr, y, Gelu{});
}
void gelu_bwd(cudaStream_t stream, DType t, int64_t n, const void* dy, const void* x, void* dx) {
  map_same(stream, t, n, dy, x, dx, GeluBwd{});
}

}  // namespace lathe::cuda
