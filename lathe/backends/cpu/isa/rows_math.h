// exp, tanh and the tail of the normal distribution on vectors, to about 2 ulp.  Polynomials are minimax fits
// (relative error below 2⁻²⁴ each).
#pragma once
#include "lathe/backends/cpu/isa/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// e^(a + b) for |b| ≪ 1; results below 2⁻¹²⁶ become 0, above 2¹²⁸ infinity.
inline Floats exp_sum(Floats a, Floats b) {
  constexpr float kRound = 12582912.f;  // 1.5 · 2²³: adding it rounds to an integer
  constexpr float kLog2Hi = 0.693145752f, kLog2Lo = 1.42860677e-6f;
  constexpr float kSmallest = -87.3365402f;  // ln 2⁻¹²⁶
  const Floats capped = a > 89.f ? all(89.f) : a;
  const Floats shifted = capped * 1.44269504f + kRound, n = shifted - kRound;
  const Floats r = ((capped - n * kLog2Hi) - n * kLog2Lo) + b;
  Floats p = all(1.381443263e-03f);
  p = p * r + 8.368796742e-03f;
  p = p * r + 4.166839581e-02f;
  p = p * r + 1.666651997e-01f;
  p = p * r + 4.999999340e-01f;
  p = (p * r) * r + r;
  // 2ⁿ in two factors, because 2¹²⁸ is none
  const Ints k = bits_as<Ints>(bits_as<Uints>(shifted) - bits_as<uint32_t>(kRound)), half = k >> 1;
  const Floats first = bits_as<Floats>((half + 127) << 23), second = bits_as<Floats>((k - half + 127) << 23);
  const Floats y = (p + 1.f) * first * second;
  return a < kSmallest ? all(0) : y;
}
inline Floats exp(Floats a) { return exp_sum(a, all(0)); }

inline Floats magnitude(Floats x) { return bits_as<Floats>(bits_as<Uints>(x) & 0x7fffffffu); }
inline Floats with_sign(Floats x, Floats sign) {
  return bits_as<Floats>((bits_as<Uints>(x) & 0x7fffffffu) | (bits_as<Uints>(sign) & 0x80000000u));
}

inline Floats tanh(Floats x) {
  const Floats a = magnitude(x), z = x * x;
  Floats p = all(-5.515167856e-03f);
  p = p * z + 2.046942423e-02f;
  p = p * z - 5.368802477e-02f;
  p = p * z + 1.333083037e-01f;
  p = p * z - 3.333325985e-01f;
  const Floats small = x + x * (z * p);
  const Floats large = 1.f - 2.f / (exp(2.f * a) + 1.f);
  return a < 0.625f ? small : with_sign(large, x);
}

/// The normal distribution at x: Φ(x), and e^(−x²/2).
struct Normal {
  Floats cdf, bell;
};
inline Normal normal(Floats x) {
  const Floats z = magnitude(x);
  // x² exactly: the upper half of x squared, and the rest
  const Floats high = bits_as<Floats>(bits_as<Uints>(z) & 0xfffff000u), low = z - high;
  const Floats bell = exp_sum(-0.5f * (high * high), -0.5f * (low * (z + high)));
  // Φ(−z) = e^(−z²/2) · t · P(t) with t = 1 / (1 + 0.35 z)
  const Floats t = 1.f / (1.f + 0.35f * z);
  Floats p = all(-2.915162323e-02f);
  p = p * t + 1.439998902e-01f;
  p = p * t - 2.557736241e-01f;
  p = p * t + 1.592434014e-01f;
  p = p * t - 2.315859542e-02f;
  p = p * t + 1.055291623e-01f;
  p = p * t + 1.198273630e-01f;
  p = p * t + 1.398626518e-01f;
  p = p * t + 1.396213580e-01f;
  const Floats tail = bell * (t * p);
  return {x < 0.f ? tail : 1.f - tail, bell};
}

/// x in every lane, in a register for as long as it lives: a compiler reads constants of a loop anew each
/// time.
inline Floats held(float x) {
  Floats v = all(x);
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#endif
  return v;
}

/// `normal`, precise enough for a result of type T, with its constants.
template <typename T>
struct NormalFor {
  Normal operator()(Floats x) const { return normal(x); }
};

/// Results of two bytes: a relative error below 2⁻¹⁶ (of 1 − Φ for x < 0) with a third of the work.
struct NormalShort {
  Floats minus_half = held(-0.5f), log2_e = held(1.44269504f), ln2 = held(0.693147182f);
  Floats round = held(12582912.f);  // as in exp_sum
  Floats slope = held(0.31f), one = held(1.f);
  Floats e2 = held(5.000511831e-01f), e3 = held(1.675353917e-01f), e4 = held(4.127774059e-02f);
  Floats p0 = held(1.238606894e-01f), p1 = held(1.204414226e-01f), p2 = held(1.334291616e-01f),
         p3 = held(1.574594941e-02f), p4 = held(1.804491866e-01f), p5 = held(-7.392872913e-02f);

  Normal operator()(Floats x) const {
    const Floats z = magnitude(x), a = minus_half * (z * z);
    const Floats shifted = a * log2_e + round, r = a - (shifted - round) * ln2;
    const Floats e = (((e4 * r + e3) * r + e2) * r + one) * r + one;
    const Uints power = (bits_as<Uints>(shifted) - bits_as<Uints>(round)) << 23;
    const Floats bell = a < -87.f ? all(0) : bits_as<Floats>(bits_as<Uints>(e) + power);
    const Floats t = one / (one + slope * z);
    const Floats p = ((((p5 * t + p4) * t + p3) * t + p2) * t + p1) * t + p0;
    const Floats tail = bell * (t * p);
    return {x < 0.f ? tail : one - tail, bell};
  }
};
template <>
struct NormalFor<Bf16> : NormalShort {};
template <>
struct NormalFor<F16> : NormalShort {};

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
