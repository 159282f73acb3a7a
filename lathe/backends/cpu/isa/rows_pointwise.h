// Elementwise kernels.
#pragma once
#include "lathe/backends/cpu/isa/rows_math.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

template <typename From, typename To, typename F>
inline void map(int64_t n, const void* xs, void* ys, F f) {
  const From* x = static_cast<const From*>(xs);
  To* y = static_cast<To*>(ys);
  for_vectors(n, [&](int64_t i, auto w) { store(y + i, f(load(x + i, w)), w); });
}
template <typename T, typename F>
inline void zip(int64_t n, const void* as, const void* bs, void* ys, F f) {
  const T *a = static_cast<const T*>(as), *b = static_cast<const T*>(bs);
  T* y = static_cast<T*>(ys);
  for_vectors(n, [&](int64_t i, auto w) { store(y + i, f(load(a + i, w), load(b + i, w)), w); });
}

template <typename T>
void gelu(int64_t n, const void* x, void* y) {
  map<T, T>(n, x, y, [](Floats v) { return v * normal_for<T>(v).cdf; });
}
template <typename T>
void gelu_bwd(int64_t n, const void* dy, const void* x, void* dx) {
  zip<T>(n, dy, x, dx, [](Floats d, Floats v) {
    const Normal at = normal_for<T>(v);
    return d * (at.cdf + v * (at.bell * 0.398942280f));
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
