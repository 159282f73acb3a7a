// Elementwise kernels.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_gelu.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// Operands are fetched this far ahead: GELU gains by it after a product that has just written them
/// (docs/performance.md).
template <typename T>
constexpr int64_t kFetchedAhead = 2048 / sizeof(T);

template <typename From, typename To, bool kCold = false, typename F>
inline void map(int64_t n, const void* xs, void* ys, F f) {
  const From* x = static_cast<const From*>(xs);
  To* y = static_cast<To*>(ys);
  for_results<kCold>(n, y, [&](int64_t i, auto w) {
    fetch(x + kFetchedAhead<From>, i);
    return f(load(x + i, w));
  });
}
template <typename T, typename F>
inline void zip(int64_t n, const void* as, const void* bs, void* ys, F f) {
  const T *a = static_cast<const T*>(as), *b = static_cast<const T*>(bs);
  T* y = static_cast<T*>(ys);
  for_results(n, y, [&](int64_t i, auto w) {
    fetch(a + kFetchedAhead<T>, i);
    fetch(b + kFetchedAhead<T>, i);
    return f(load(a + i, w), load(b + i, w));
  });
}

template <typename T, bool kCold>
void gelu(int64_t n, const void* x, void* y) {
  const Gelu<T> gelu;
  map<T, T, kCold>(n, x, y, [&](Floats v) { return gelu.value(v); });
}
template <typename T>
void gelu_bwd(int64_t n, const void* dy, const void* x, void* dx) {
  const Gelu<T> gelu;
  zip<T>(n, dy, x, dx, [&](Floats d, Floats v) { return d * gelu.slope(v); });
}
/// y[rows, cols] = the activation of the first half of rows of 2 · cols, times the second half.
template <typename T, typename Curve>
void gated(int64_t begin, int64_t end, int64_t cols, int64_t ld, int64_t x_ld, const void* x, void* y) {
  const Curve activation;
  for (int64_t row = begin; row < end; ++row) {
    const T* u = static_cast<const T*>(x) + row * x_ld;
    zip<T>(cols, u, u + cols, static_cast<T*>(y) + row * ld,
           [&](Floats a, Floats gate) { return value_of(activation, a) * gate; });
  }
}
template <typename T, typename Curve>
void gated_bwd(int64_t begin, int64_t end, int64_t cols, int64_t ld, int64_t x_ld, const void* dys,
               const void* xs, void* dxs) {
  const Curve activation;
  for (int64_t row = begin; row < end; ++row) {
    const T* dy = static_cast<const T*>(dys) + row * ld;
    const T* x = static_cast<const T*>(xs) + row * x_ld;
    T* dx = static_cast<T*>(dxs) + row * x_ld;
    for_vectors(cols, [&](int64_t i, auto w) {
      const Floats d = load(dy + i, w), u = load(x + i, w), gate = load(x + cols + i, w);
      const GeluAt at = activation.at(u);
      store(dx + i, d * gate * at.slope, w);
      store(dx + cols + i, d * at.value, w);
    });
  }
}
/// Pairs (x[i], x[half + i]) turned: (a, b) → (a cos − b sin, b cos + a sin).
template <typename T>
void rotate(int64_t pieces, int64_t half, const float* cosines, const float* sines, const void* xs,
            void* ys) {
  for_vectors(half, [&](int64_t i, auto w) {
    const Floats c = load(cosines + i, w), s = load(sines + i, w);
    const T* x = static_cast<const T*>(xs) + i;
    T* y = static_cast<T*>(ys) + i;
    for (int64_t piece = 0; piece < pieces; ++piece, x += 2 * half, y += 2 * half) {
      const Floats a = load(x, w), b = load(x + half, w);
      store(y, a * c - b * s, w);
      store(y + half, b * c + a * s, w);
    }
  });
}
/// NaN stays NaN.
template <typename T>
void relu(int64_t n, const void* x, void* y) {
  map<T, T>(n, x, y, [](Floats v) { return v <= 0.f ? all(0) : v; });
}
template <typename T>
void relu_bwd(int64_t n, const void* dy, const void* y, void* dx) {
  zip<T>(n, dy, y, dx, [](Floats d, Floats v) { return v <= 0.f ? all(0) : d; });
}
template <typename T>
void tanh_row(int64_t n, const void* x, void* y) {
  map<T, T>(n, x, y, [](Floats v) { return tanh(v); });
}
template <typename T>
void tanh_bwd(int64_t n, const void* dy, const void* y, void* dx) {
  zip<T>(n, dy, y, dx, [](Floats d, Floats v) { return d * (1.f - v * v); });
}
template <typename T>
void add(int64_t n, const void* a, const void* b, void* y) {
  zip<T>(n, a, b, y, [](Floats u, Floats v) { return u + v; });
}
template <typename T>
void mul(int64_t n, const void* a, const void* b, void* y) {
  zip<T>(n, a, b, y, [](Floats u, Floats v) { return u * v; });
}
template <typename T>
void scale(int64_t n, const void* x, float factor, void* y) {
  map<T, T>(n, x, y, [=](Floats v) { return v * factor; });
}
template <typename T>
void to_f32(int64_t n, const void* x, float* y) {
  map<T, float>(n, x, y, [](Floats v) { return v; });
}
template <typename T>
void from_f32(int64_t n, const float* x, void* y) {
  map<float, T>(n, x, y, [](Floats v) { return v; });
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
