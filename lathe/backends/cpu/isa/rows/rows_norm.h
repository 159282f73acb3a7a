// Normalisation of rows and sums over rows.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

template <typename T>
void layer_norm(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* xs, const float* gamma,
                const float* beta, float eps, void* ys, float* mean, float* rstd) {
  const float n = static_cast<float>(cols);
  const int64_t some = cols < kSumLanes ? cols : kSumLanes;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(xs) + row * ld;
    T* y = static_cast<T*>(ys) + row * ld;
    // Deviations are from the mean of the first few, which their own mean corrects: a constant row has
    // variance 0 and y = beta.  The variance is at least some / n of the square of that correction, so that
    // the mean square below is 1 + n / some times the variance at most, and loses as much of f32's precision.
    Sum first{};
    for_sums(some, [&](int64_t i, auto w, int s) { first.set[s] += load(x + i, w); });
    const float near = first.total() / static_cast<float>(some);
    Sum deviation{}, square{};
    for_sums(cols, [&](int64_t i, auto w, int s) {
      const Floats d = clear(load(x + i, w) - near, w);
      deviation.set[s] += d;
      square.set[s] += d * d;
    });
    const float shift = deviation.total() / n, m = near + shift;
    const float variance = square.total() / n - shift * shift;
    const float r = 1.f / sqrtf((variance < 0.f ? 0.f : variance) + eps);
    if (beta != nullptr)
      for_results(cols, y, [&](int64_t i, auto w) {
        fetch(x + ld, i);
        return (load(x + i, w) - m) * r * load(gamma + i, w) + load(beta + i, w);
      });
    else
      for_results(cols, y, [&](int64_t i, auto w) {
        fetch(x + ld, i);
        return (load(x + i, w) - m) * r * load(gamma + i, w);
      });
    mean[row] = m;
    rstd[row] = r;
  }
}

template <typename T>
void layer_norm_bwd(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* dys, const void* xs,
                    const float* gamma, const float* mean, const float* rstd, const void* pasts, void* dxs,
                    float* dgamma, float* dbeta) {
  const float n = static_cast<float>(cols);
  for (int64_t i = 0; i < cols; ++i) dgamma[i] = dbeta[i] = 0;
  for (int64_t row = begin; row < end; ++row) {
    const T* dy = static_cast<const T*>(dys) + row * ld;
    const T* x = static_cast<const T*>(xs) + row * ld;
    const T* past = pasts == nullptr ? nullptr : static_cast<const T*>(pasts) + row * ld;
    T* dx = static_cast<T*>(dxs) + row * ld;
    const float m = mean[row], r = rstd[row];
    Sum plain{}, skewed{};
    for_sums(cols, [&](int64_t i, auto w, int s) {
      const Floats scale = load(gamma + i, w), of_gamma = load(dgamma + i, w), of_beta = load(dbeta + i, w);
      const Floats d = load(dy + i, w), normal = (load(x + i, w) - m) * r, g = d * scale;
      fetch(x + ld, i);
      plain.set[s] += g;
      skewed.set[s] += g * normal;
      store(dgamma + i, of_gamma + d * normal, w);
      store(dbeta + i, of_beta + d, w);
    });
    const float a = plain.total() / n, b = skewed.total() / n * r;
    const auto slope = [&](int64_t i, auto w) {
      fetch(dy + ld, i);
      return r * (load(dy + i, w) * load(gamma + i, w) - a - (load(x + i, w) - m) * b);
    };
    if (past == nullptr)
      for_results(cols, dx, slope);
    else
      for_results(cols, dx, [&](int64_t i, auto w) {
        fetch(past + ld, i);
        return load(past + i, w) + slope(i, w);
      });
  }
}

/// Weights are gamma + more.
template <typename T>
void rms_norm(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* xs, const float* gamma,
              float more, float eps, void* ys, float* rstd) {
  const float n = static_cast<float>(cols);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(xs) + row * ld;
    T* y = static_cast<T*>(ys) + row * ld;
    Sum square{};
    for_sums(cols, [&](int64_t i, auto w, int s) {
      const Floats v = load(x + i, w);
      square.set[s] += v * v;
    });
    const float r = 1.f / sqrtf(square.total() / n + eps);
    for_results(cols, y, [&](int64_t i, auto w) {
      fetch(x + ld, i);
      return load(x + i, w) * r * (load(gamma + i, w) + more);
    });
    rstd[row] = r;
  }
}

template <typename T>
void rms_norm_bwd(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* dys, const void* xs,
                  const float* gamma, float more, const float* rstd, const void* pasts, void* dxs,
                  float* dgamma) {
  const float n = static_cast<float>(cols);
  for (int64_t row = begin; row < end; ++row) {
    const T* dy = static_cast<const T*>(dys) + row * ld;
    const T* x = static_cast<const T*>(xs) + row * ld;
    const T* past = pasts == nullptr ? nullptr : static_cast<const T*>(pasts) + row * ld;
    T* dx = static_cast<T*>(dxs) + row * ld;
    const float r = rstd[row];
    Sum skewed{};
    for_sums(cols, [&](int64_t i, auto w, int s) {
      const Floats d = load(dy + i, w), normal = load(x + i, w) * r;
      fetch(x + ld, i);
      skewed.set[s] += d * (load(gamma + i, w) + more) * normal;
      store(dgamma + i, load(dgamma + i, w) + d * normal, w);
    });
    const float b = skewed.total() / n * r;
    const auto slope = [&](int64_t i, auto w) {
      fetch(dy + ld, i);
      return r * (load(dy + i, w) * (load(gamma + i, w) + more) - load(x + i, w) * b);
    };
    if (past == nullptr)
      for_results(cols, dx, slope);
    else
      for_results(cols, dx, [&](int64_t i, auto w) {
        fetch(past + ld, i);
        return load(past + i, w) + slope(i, w);
      });
  }
}

template <typename T>
void column_sums(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* xs, float* sums) {
  for (int64_t i = 0; i < cols; ++i) sums[i] = 0;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(xs) + row * ld;
    for_vectors(cols, [&](int64_t i, auto w) { store(sums + i, load(sums + i, w) + load(x + i, w), w); });
  }
}

void sum_blocks(int64_t begin, int64_t end, int64_t cols, int64_t step, int64_t blocks, float* partial,
                float* out) {
  for (; step < blocks; step *= 2)
    for (int64_t b = 0; b + step < blocks; b += 2 * step) {
      float *to = partial + b * cols + begin, *from = partial + (b + step) * cols + begin;
      for_vectors(end - begin,
                  [&](int64_t i, auto w) { store(to + i, load(to + i, w) + load(from + i, w), w); });
    }
  if (out == partial) return;
  for_vectors(end - begin,
              [&](int64_t i, auto w) { store(out + begin + i, load(partial + begin + i, w), w); });
}

/// y[0 … n) = Σ over i < count of x[rows[i] · ld …).
template <typename From, typename To>
void sum_rows(int64_t n, int64_t ld, const From* x, const int32_t* rows, int64_t count, To* y) {
  constexpr int kWide = 4;
  int64_t i = 0;
  for (; i + kWide * kLanes <= n; i += kWide * kLanes) {
    Floats sum[kWide] = {};
    for (int64_t r = 0; r < count; ++r)
      for (int k = 0; k < kWide; ++k) sum[k] += load(x + rows[r] * ld + i + k * kLanes);
    for (int k = 0; k < kWide; ++k) store(y + i + k * kLanes, sum[k]);
  }
  for_vectors(n - i, [&](int64_t j, auto w) {
    Floats sum = all(0);
    for (int64_t r = 0; r < count; ++r) sum += load(x + rows[r] * ld + i + j, w);
    store(y + i + j, sum, w);
  });
}
template <typename To, typename From, typename Out>
void sum_rows_to(int64_t n, int64_t ld, const void* x, const int32_t* rows, int64_t count, Out* y) {
  sum_rows(n, ld, static_cast<const From*>(x), rows, count, static_cast<To*>(y));
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
