// Optimizer, gradient norm and softmax losses on f32.
#pragma once
#include "lathe/backends/cpu/isa/fastest_way.h"
#include "lathe/backends/cpu/isa/rows/rows_kernels.h"
#include "lathe/backends/cpu/isa/rows/rows_math.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// kSumLanes sums of doubles.
struct DoubleSum {
  Doubles part[2 * kSets] = {};

  void add(int set, Floats x) {
    HalfFloats half[2];
    memcpy(half, &x, sizeof half);
    for (int h = 0; h < 2; ++h) part[2 * set + h] += __builtin_convertvector(half[h], Doubles);
  }
  void add_square(int set, Floats x) {
    HalfFloats half[2];
    memcpy(half, &x, sizeof half);
    for (int h = 0; h < 2; ++h) {
      const Doubles wide = __builtin_convertvector(half[h], Doubles);
      part[2 * set + h] += wide * wide;
    }
  }
  double total() const {
    double lane[kSumLanes];
    memcpy(lane, part, sizeof lane);
    for (int half = kSumLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    return lane[0];
  }
};

/// f(x) for groups of `each` elements, the last one filled up with 0.  With a single stream the processor's
/// own fetching does not keep up.
template <int64_t each, typename T, typename F>
inline void for_groups(int64_t n, const T* x, F f) {
  constexpr int64_t kAhead = 4096 / sizeof(T), kLine = 64 / sizeof(T);
  int64_t i = 0;
  for (; i + each <= n; i += each) {
    for (int64_t line = 0; line < each; line += kLine) __builtin_prefetch(x + i + kAhead + line);
    f(x + i);
  }
  if (i == n) return;
  T rest[each] = {};
  for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  f(rest);
}

template <typename T>
double exact_sum_of_squares(int64_t n, const T* x) {
  DoubleSum sum;
  for_groups<kSumLanes>(n, x, [&](const T* from) {
    for (int s = 0; s < kSets; ++s) sum.add_square(s, load(from + s * kLanes));
  });
  return sum.total();
}

/// Of numbers of two bytes, whose squares f32 holds: eight of them are added there, which rounds three times,
/// before they are widened.
template <typename T>
double short_sum_of_squares(int64_t n, const T* x) {
  DoubleSum sum;
  for_groups<8 * kSumLanes>(n, x, [&](const T* from) {
    for (int s = 0; s < kSets; ++s) {
      Floats of_two[4];
      for (int i = 0; i < 4; ++i) {
        const Floats a = load(from + (2 * i) * kSumLanes + s * kLanes);
        const Floats b = load(from + (2 * i + 1) * kSumLanes + s * kLanes);
        of_two[i] = a * a + b * b;
      }
      sum.add(s, (of_two[0] + of_two[1]) + (of_two[2] + of_two[3]));
    }
  });
  return sum.total();
}

template <typename T>
double sum_of_squares(int64_t n, const void* xs) {
  const T* x = static_cast<const T*>(xs);
  if constexpr (sizeof(T) == 2) {
    // Squares beyond f32 make the sum infinite; those below 2⁻¹²⁶ are no part of 2⁻²⁴ of such a sum.
    const double sum = short_sum_of_squares(n, x);
    if (sum > 0x1p-86 && sum < 0x1p127) return sum;
  }
  return exact_sum_of_squares(n, x);
}

inline bool all_zero(Uints x) {
  uint32_t any = 0;
  for (int l = 0; l < kLanes; ++l) any |= x[l];
  return any == 0;
}

/// kFetch: what comes 2 KB later is fetched into the first cache.
template <bool kFetch>
void adamw_part(int64_t n, const AdamW* a, const float* grad, float* param, float* m, float* v) {
  constexpr int64_t kAhead = 2048 / sizeof(float);
  const float decay = static_cast<float>(1 - a->lr * a->weight_decay), clip = static_cast<float>(a->clip);
  const float keep1 = static_cast<float>(a->beta1), take1 = static_cast<float>(1 - a->beta1);
  const float keep2 = static_cast<float>(a->beta2), take2 = static_cast<float>(1 - a->beta2);
  const float step = static_cast<float>(a->lr / a->bias_correction1), eps = static_cast<float>(a->eps);
  const float root = static_cast<float>(::sqrt(a->bias_correction2));
  const auto update = [&](int64_t i, auto w) {
    const Floats g = load(grad + i, w) * clip;
    const Floats m1 = load(m + i, w) * keep1 + g * take1;
    const Floats v1 = load(v + i, w) * keep2 + g * g * take2;
    const Floats p = load(param + i, w) * decay;
    if (kFetch)
      for (const float* x : {param, m, v}) __builtin_prefetch(x + i + kAhead);
    store(m + i, m1, w);
    store(v + i, v1, w);
    store(param + i, p - step * m1 / (square_root(v1) / root + eps), w);
  };
  // Rows of an embedding that no batch has touched: g, m and v are zero and stay so, and without decay p
  // stays as well.  The kernel sees that they are zero, does not read p and writes nothing.
  constexpr int64_t kBlock = 8 * kLanes;
  int64_t i = 0;
  if (decay == 1)
    for (; i + kBlock <= n; i += kBlock) {
      Uints bits{};
      for (int64_t j = i; j < i + kBlock; j += kLanes)
        bits |= bits_as<Uints>(load(grad + j)) | bits_as<Uints>(load(m + j)) | bits_as<Uints>(load(v + j));
      if (all_zero(bits)) continue;
      for (int64_t j = i; j < i + kBlock; j += kLanes) update(j, Whole{});
    }
  for_vectors(n - i, [&](int64_t j, auto w) { update(i + j, w); });
}

/// Four streams, of which three are written: on some cores the processor's own fetching does not keep up, on
/// others more fetching slows it down.  Each thread finds out which; the results are the same.
void adamw(int64_t n, const AdamW* a, const float* grad, float* param, float* m, float* v) {
#if defined(__x86_64__)
  constexpr int64_t kTurn = 2048;
  constexpr decltype(&adamw_part<true>) kParts[] = {adamw_part<false>, adamw_part<true>};
  thread_local FastestWay<2> fastest;
  int64_t i = 0;
  for (; i + kTurn <= n; i += kTurn)
    fastest.turn([] { return __rdtsc(); },
                 [&](int way) { kParts[way](kTurn, a, grad + i, param + i, m + i, v + i); });
  adamw_part<false>(n - i, a, grad + i, param + i, m + i, v + i);
#else
  adamw_part<false>(n, a, grad, param, m, v);
#endif
}

void accumulate(int64_t n, float keep, const float* g, float* total) {
  if (keep == 0) {
    for_vectors(n, [&](int64_t i, auto w) { store(total + i, load(g + i, w), w); });
  } else {
    for_vectors(n,
                [&](int64_t i, auto w) { store(total + i, keep * load(total + i, w) + load(g + i, w), w); });
  }
}

/// Elements i · stride …; `fill` after the end.
inline Floats pick(const float* x, int64_t i, int64_t n, int64_t stride, float fill) {
  if (stride == 1 && i + kLanes <= n) return load(x + i);
  float part[kLanes];
  for (int l = 0; l < kLanes; ++l) part[l] = i + l < n ? x[(i + l) * stride] : fill;
  return load(part);
}

double log_sum_exp(int64_t n, int64_t stride, const float* x) {
  const float nothing = -__builtin_inff();
  Floats largest = all(nothing);
  for (int64_t i = 0; i < n; i += kLanes) largest = larger(pick(x, i, n, stride, nothing), largest);
  float top = nothing;
  for (int l = 0; l < kLanes; ++l) top = largest[l] > top ? largest[l] : top;
  Sum sum{};
  for (int64_t i = 0; i < n; i += kSumLanes)
    for (int s = 0; s < kSets; ++s) sum.set[s] += exp(pick(x, i + s * kLanes, n, stride, nothing) - top);
  return static_cast<double>(top) + ::log(static_cast<double>(sum.total()));
}

void softmax_bwd(int64_t n, int64_t stride, const float* x, double lse, float factor, float* dx) {
  const float high = static_cast<float>(lse), low = static_cast<float>(lse - static_cast<double>(high));
  for (int64_t i = 0; i < n; i += kLanes) {
    const Floats y = factor * exp_sum(pick(x, i, n, stride, 0) - high, all(-low));
    for (int l = 0; l < kLanes && i + l < n; ++l) dx[(i + l) * stride] = y[l];
  }
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
