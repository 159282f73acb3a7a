// Activations of gated layers and gelu, with their derivatives.  Results of four bytes are exact to some ulp;
// of what has two bytes, the tail of Φ and x · φ are each off by less than 2⁻¹⁶ of themselves.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_math.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

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

/// The same for results of two bytes, with a third of the work.
inline Normal normal_short(Floats x) {
  const Floats z = magnitude(x), a = -0.5f * (z * z);
  const Floats shifted = a * 1.44269504f + kRound, r = a - (shifted - kRound) * 0.693147182f;
  Floats e = all(4.127774059e-02f);
  e = e * r + 1.675353917e-01f;
  e = e * r + 5.000511831e-01f;
  e = (e * r + 1.f) * r + 1.f;
  const Uints power = (bits_as<Uints>(shifted) - bits_as<uint32_t>(kRound)) << 23;
  const Floats bell = a < -87.f ? all(0) : bits_as<Floats>(bits_as<Uints>(e) + power);
  const Floats t = 1.f / (1.f + 0.31f * z);
  Floats p = all(-7.392872913e-02f);
  p = p * t + 1.804491866e-01f;
  p = p * t + 1.574594941e-02f;
  p = p * t + 1.334291616e-01f;
  p = p * t + 1.204414226e-01f;
  p = p * t + 1.238606894e-01f;
  const Floats tail = bell * (t * p);
  return {x < 0.f ? tail : 1.f - tail, bell};
}

/// gelu at x, and its derivative.
struct GeluAt {
  Floats value, slope;
};

template <Normal (*kNormal)(Floats)>
struct GeluByNormal {
  GeluAt at(Floats x) const {
    const Normal n = kNormal(x);
    return {x * n.cdf, n.cdf + x * (n.bell * 0.398942280f)};
  }
  Floats value(Floats x) const { return at(x).value; }
  Floats slope(Floats x) const { return at(x).slope; }
};

#if defined(__AVX512F__)
/// A function on [0, kEnd) by polynomials of the fourth degree, each around a multiple of kEnd / 32.  Their
/// coefficients fit ten registers, from which one instruction takes those of 16 lanes.
class Pieces {
 public:
  static constexpr int kCount = 32, kTerms = 5;
  static constexpr double kStep = 5.5 / kCount, kEnd = kStep * (kCount - 0.5);

  /// Interpolates f at the Chebyshev points of each piece.
  explicit Pieces(double (*f)(double)) {
    for (int piece = 0; piece < kCount; ++piece) {
      double at[kTerms], difference[kTerms], term[kTerms] = {};
      for (int i = 0; i < kTerms; ++i) {
        at[i] = 0.5 * ::cos(M_PI * (i + 0.5) / kTerms);
        difference[i] = f((piece + at[i]) * kStep);
      }
      for (int order = 1; order < kTerms; ++order)
        for (int i = kTerms - 1; i >= order; --i)
          difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
      for (int i = kTerms - 1; i >= 0; --i) {  // Newton's form → powers
        for (int k = kTerms - 1; k > 0; --k) term[k] = term[k - 1] - at[i] * term[k];
        term[0] = difference[i] - at[i] * term[0];
      }
      for (int k = 0; k < kTerms; ++k) terms_[k][piece] = static_cast<float>(term[k]);
    }
  }

  /// z: of [0, kEnd), a number of two bytes.
  Floats operator()(Floats z) const {
    const Floats shifted = z * static_cast<float>(1 / kStep) + kRound;
    const Floats r = z * static_cast<float>(1 / kStep) - (shifted - kRound);
    const auto term = [&](int k) {
      return bits_as<Floats>(_mm512_permutex2var_ps(_mm512_load_ps(terms_[k]), bits_as<__m512i>(shifted),
                                                    _mm512_load_ps(terms_[k] + kLanes)));
    };
    return (((term(4) * r + term(3)) * r + term(2)) * r + term(1)) * r + term(0);
  }

 private:
  alignas(64) float terms_[kTerms][kCount];
};

inline double normal_tail(double z) { return 0.5 * ::erfc(z * M_SQRT1_2); }
inline double gelu_slope_tail(double z) {
  return normal_tail(z) - z * ::exp(-0.5 * z * z) * (M_SQRT1_2 / ::sqrt(M_PI));
}

/// By pieces where |x| is not too large, which takes half the time.
struct GeluByPieces {
  const Pieces &tail = pieces<normal_tail>(), &slope_tail = pieces<gelu_slope_tail>();

  Floats value(Floats x) const {
    const Floats z = magnitude(x);
    const Floats positive = bits_as<Floats>(_mm512_max_ps(bits_as<__m512>(x), _mm512_setzero_ps()));
    return mended(x, positive - z * tail(z), &GeluAt::value);
  }
  Floats slope(Floats x) const {
    const Floats s = slope_tail(magnitude(x));
    return mended(x, x < 0.f ? s : 1.f - s, &GeluAt::slope);
  }
  GeluAt at(Floats x) const { return {value(x), slope(x)}; }

 private:
  template <double (*kFunction)(double)>
  static const Pieces& pieces() {
    static const Pieces known(kFunction);
    return known;
  }
  /// `result` where the pieces reach; elsewhere, and for NaN, what is computed.
  static Floats mended(Floats x, Floats result, Floats GeluAt::*computed) {
    const __m512 end = _mm512_set1_ps(static_cast<float>(Pieces::kEnd));
    const __mmask16 beyond = _mm512_cmp_ps_mask(bits_as<__m512>(magnitude(x)), end, _CMP_NLT_UQ);
    if (__builtin_expect(beyond == 0, 1)) return result;
    const Floats all_computed = GeluByNormal<normal>().at(x).*computed;
    return bits_as<Floats>(
        _mm512_mask_mov_ps(bits_as<__m512>(result), beyond, bits_as<__m512>(all_computed)));
  }
};
typedef GeluByPieces GeluShort;
#else
typedef GeluByNormal<normal_short> GeluShort;
#endif

template <typename T>
struct Gelu : GeluShort {};
template <>
struct Gelu<float> : GeluByNormal<normal> {};

/// The value by itself, which some know faster.
template <typename T>
inline Floats value_of(const Gelu<T>& gelu, Floats x) {
  return gelu.value(x);
}
template <typename Curve>
inline Floats value_of(const Curve& activation, Floats x) {
  return activation.at(x).value;
}

/// x · σ(w) and its derivative for w' = dw / dx.  No difference cancels: σ(w) σ(−w) is that of |w|.
inline GeluAt by_sigmoid(Floats x, Floats w, Floats slope_of_w) {
  const Floats e = exp(-magnitude(w)), upper = 1.f / (1.f + e), tail = e * upper;
  const Floats s = w < 0.f ? tail : upper;
  return {x * s, s + x * (slope_of_w * (tail * upper))};
}
struct Silu {
  static GeluAt at(Floats x) { return by_sigmoid(x, x, all(1)); }
};
/// ½ x (1 + tanh z) = x · σ(2z), z = √(2/π) (x + 0.044715 x³)
struct GeluTanh {
  static GeluAt at(Floats x) {
    constexpr float kTwice = 1.59576912f, kCubic = 0.044715f, kMost = 1e30f;  // so that w' stays finite
    const Floats square = x * x, bend = kCubic * (square < kMost ? square : all(kMost));
    return by_sigmoid(x, x * (1.f + bend) * kTwice, (1.f + 3.f * bend) * kTwice);
  }
};

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
