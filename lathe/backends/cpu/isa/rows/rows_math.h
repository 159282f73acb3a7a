// exp and tanh on vectors, to about 2 ulp.  Polynomials are minimax fits
// (relative error below 2⁻²⁴ each).
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// 1.5 · 2²³: adding it rounds to an integer, which then lies in the lowest bits.
constexpr float kRound = 12582912.f;

/// e^(a + b) for |b| ≪ 1; results below 2⁻¹²⁶ become 0, above 2¹²⁸ infinity.
inline Floats exp_sum(Floats a, Floats b) {
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

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
