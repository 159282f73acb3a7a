// Vectors of one instruction set, as GCC and clang spell them.  Included only by sources of isa/ that define
// LATHE_ISA_NAMESPACE; everything has internal linkage, so that no instruction leaks into other sources.
//
// Sums run over kSumLanes virtual lanes whatever the width: element e is added to lane e % kSumLanes, and the
// lanes are added as a tree.  So every level adds in the same order.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kSumLanes = 32;
constexpr int kSets = kSumLanes / kLanes;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Uints __attribute__((vector_size(4 * kLanes)));
typedef uint64_t Longs __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));
typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));
typedef double Doubles __attribute__((vector_size(4 * kLanes)));

/// How bf16 and f16 are stored.
typedef uint16_t Bf16;
struct F16 {
  uint16_t bits;
};

inline Floats all(float x) { return Floats{} + x; }
template <typename To, typename From>
inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

/// One instruction each where GCC's own conversion takes several.
inline Uints widened(Halves x) {
#if defined(__AVX512F__)
  return bits_as<Uints>(_mm512_maskz_cvtepu16_epi32(0xffff, bits_as<__m256i>(x)));
#else
  return __builtin_convertvector(x, Uints);
#endif
}
inline Halves narrowed(Uints x) {
#if defined(__AVX512F__)
  return bits_as<Halves>(_mm512_maskz_cvtepi32_epi16(0xffff, bits_as<__m512i>(x)));
#else
  return __builtin_convertvector(x, Halves);
#endif
}

inline Floats load(const float* p) {
  Floats x;
  memcpy(&x, p, sizeof x);
  return x;
}
inline Floats load(const Bf16* p) {
  Halves x;
  memcpy(&x, p, sizeof x);
#if defined(__AVX512F__)
  alignas(64) static const uint16_t kToUpper[32] = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                                                    0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
  return bits_as<Floats>(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(kToUpper),
                                                        _mm512_castsi256_si512(bits_as<__m256i>(x))));
#else
  return bits_as<Floats>(widened(x) << 16);
#endif
}
inline void store(float* p, Floats x) { memcpy(p, &x, sizeof x); }
/// Rounds to nearest even; NaN stays a quiet NaN.  The instruction for it makes 0 of what is below 2⁻¹²⁶,
/// which is 0 to the products of its level, too.
inline void store(Bf16* p, Floats x) {
#if defined(__AVX512BF16__)
  const __m256bh rounded = _mm512_cvtneps_pbh(bits_as<__m512>(x));
  memcpy(p, &rounded, sizeof rounded);
#elif defined(__AVX512F__)
  const __m512i u = bits_as<__m512i>(x), up = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
  const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(bits_as<__m512>(x), bits_as<__m512>(x), _CMP_UNORD_Q);
  const __m512i even = _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_mask_or_epi32(even, is_nan, u, _mm512_set1_epi32(0x400000));
  alignas(64) static const uint16_t kUpper[32] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i upper = _mm512_maskz_permutexvar_epi16(~__mmask32{0}, _mm512_load_si512(kUpper), rounded);
  memcpy(p, &upper, 2 * kLanes);
#else
  const Uints u = bits_as<Uints>(x);
  const Ints is_nan = x != x;
  const Uints rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const Halves h = narrowed(is_nan ? (u >> 16) | 0x40u : rounded);
  memcpy(p, &h, sizeof h);
#endif
}

/// Two vectors that follow each other.
template <typename T>
inline void store(T* p, Floats x, Floats y) {
  store(p, x);
  store(p + kLanes, y);
}
#if defined(__AVX512BF16__)
inline void store(Bf16* p, Floats x, Floats y) {
  const __m512bh rounded = _mm512_cvtne2ps_pbh(bits_as<__m512>(y), bits_as<__m512>(x));
  memcpy(p, &rounded, sizeof rounded);
}
#endif

/// IEEE binary16, subnormals included on every level.
inline Floats load(const F16* p) {
  Halves h;
  memcpy(&h, p, sizeof h);
#if defined(__AVX512F__)
  return bits_as<Floats>(_mm512_maskz_cvtph_ps(0xffff, bits_as<__m256i>(h)));
#elif defined(__F16C__)
  return bits_as<Floats>(_mm256_cvtph_ps(bits_as<__m128i>(h)));
#elif defined(__aarch64__)
  return bits_as<Floats>(vcvt_f32_f16(bits_as<float16x4_t>(h)));
#else
  const Uints wide = __builtin_convertvector(h, Uints), sign = (wide & 0x8000u) << 16;
  const Uints magnitude = (wide & 0x7fffu) << 13;
  const Ints special = bits_as<Ints>(magnitude) >= 0x0f800000;  // infinity, NaN
  const Uints scaled = bits_as<Uints>(bits_as<Floats>(magnitude) * 0x1p112f);
  return bits_as<Floats>(sign | (special ? magnitude | 0x7f800000u : scaled));
#endif
}
/// Rounds to nearest even, from 65520 on to infinity; NaN stays a quiet NaN.
inline void store(F16* p, Floats x) {
#if defined(__AVX512F__)
  const Halves h = bits_as<Halves>(
      _mm512_maskz_cvtps_ph(0xffff, bits_as<__m512>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  const Halves h =
      bits_as<Halves>(_mm256_cvtps_ph(bits_as<__m256>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
  const Halves h = bits_as<Halves>(vcvt_f16_f32(bits_as<float32x4_t>(x)));
#else
  const Uints u = bits_as<Uints>(x), magnitude = u & 0x7fffffffu;
  const Ints size = bits_as<Ints>(magnitude);
  const Uints normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  // below 2⁻¹⁴: numbers from ½ on are 2⁻²⁴ apart, as subnormals are
  const Uints subnormal = bits_as<Uints>(bits_as<Floats>(magnitude) + 0.5f) - bits_as<Uints>(all(0.5f));
  const Uints finite = size < 0x38800000 ? subnormal : normal;
  const Uints special = size > 0x7f800000 ? Uints{} + 0x7e00u : Uints{} + 0x7c00u;
  const Uints rounded = size >= 0x477ff000 ? special : finite;
  const Halves h = __builtin_convertvector(((u >> 16) & 0x8000u) | rounded, Halves);
#endif
  memcpy(p, &h, sizeof h);
}

/// How much of a vector an access touches: all of it, or the first `n` elements (the rest reads as 0).
struct Whole {};
struct First {
  int n;
};
template <typename T>
inline Floats load(const T* p, Whole) {
  return load(p);
}
template <typename T>
inline void store(T* p, Floats x, Whole) {
  store(p, x);
}
template <typename T>
inline Floats load(const T* p, First w) {
  T part[kLanes] = {};
  for (int i = 0; i < w.n; ++i) part[i] = p[i];
  return load(part);
}
template <typename T>
inline void store(T* p, Floats x, First w) {
  T part[kLanes];
  store(part, x);
  for (int i = 0; i < w.n; ++i) p[i] = part[i];
}

/// Stores two vectors past the caches, until `fence`, where the level and the place of two-byte elements
/// allow it.
template <typename T>
inline void stream(T* p, Floats x, Floats y) {
#if defined(__AVX512F__)
  if (sizeof(T) == 2 && reinterpret_cast<uintptr_t>(p) % sizeof(__m512i) == 0) {
    T both[2 * kLanes];
    store(both, x, y);
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(p), _mm512_loadu_si512(both));
  }
#endif
  store(p, x, y);
}
/// After it other threads see what was streamed.
inline void fence() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

/// Fetches x[i …) into the cache where a line's worth of elements begins with i: what the next row reads,
/// which the hardware does not foresee in time.  There may be no such row.
template <typename T>
inline void fetch(const T* x, int64_t i) {
  if (i % static_cast<int64_t>(64 / sizeof(T)) == 0) __builtin_prefetch(x + i);
}

/// f(i, width) for all vectors of [0, n).
template <typename F>
inline void for_vectors(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, Whole{});
  if (i < n) f(i, First{static_cast<int>(n - i)});
}

/// y[i …) = f(i, width) for all vectors of [0, n), two at a time.  kCold: y lies in no cache.
template <bool kCold = false, typename T, typename F>
inline void for_results(int64_t n, T* y, F f) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Floats first = f(i, Whole{}), second = f(i + kLanes, Whole{});
    if constexpr (kCold)
      stream(y + i, first, second);
    else
      store(y + i, first, second);
  }
  for_vectors(n - i, [&](int64_t j, auto w) { store(y + i + j, f(i + j, w), w); });
}

/// Lane i becomes lane i + lane i ^ kHalf.
template <int kHalf, size_t... kLane>
inline Floats folded(Floats x, std::index_sequence<kLane...>) {
  return x + __builtin_shufflevector(x, x, (kLane ^ kHalf)...);
}
template <int kHalf>
inline float tree(Floats x) {
  if constexpr (kHalf == 0)
    return x[0];
  else
    return tree<kHalf / 2>(folded<kHalf>(x, std::make_index_sequence<kLanes>()));
}

/// kSumLanes sums.
struct Sum {
  Floats set[kSets];
  float total() const {
    Sum half = *this;
    for (int sets = kSets / 2; sets > 0; sets /= 2)
      for (int s = 0; s < sets; ++s) half.set[s] += half.set[s + sets];
    return tree<kLanes / 2>(half.set[0]);
  }
};

/// f(i, width, s) for all vectors of [0, n), where s is the set of sums that the vector belongs to.  Lanes
/// after the end must add 0.
template <typename F>
inline void for_sums(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
    for (int s = 0; s < kSets; ++s) f(i + s * kLanes, Whole{}, s);
  for (int s = 0; s < kSets; ++s) {
    const int64_t left = n - i - s * kLanes;
    if (left >= kLanes) {
      f(i + s * kLanes, Whole{}, s);
    } else if (left > 0) {
      f(i + s * kLanes, First{static_cast<int>(left)}, s);
    }
  }
}

/// f(i, s) in the same way where n is a multiple of kSumLanes.
template <typename F>
inline void for_whole_sums(int64_t n, F f) {
  for (int64_t i = 0; i < n; i += kSumLanes)
    for (int s = 0; s < kSets; ++s) f(i + s * kLanes, s);
}

/// x where the width reaches, 0 after it.
inline Floats clear(Floats x, Whole) { return x; }
inline Floats clear(Floats x, First w) {
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < w.n ? x : all(0);
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// AVX-512 takes the masked forms, all lanes on: the plain ones of GCC 12 pass an undefined operand, which
// -Wmaybe-uninitialized reports.
inline Floats square_root(Floats x) {
#if defined(__AVX512F__)
  return bits_as<Floats>(_mm512_maskz_sqrt_ps(0xffff, bits_as<__m512>(x)));
#elif defined(__AVX2__)
  return bits_as<Floats>(_mm256_sqrt_ps(bits_as<__m256>(x)));
#elif defined(__x86_64__)
  return bits_as<Floats>(_mm_sqrt_ps(bits_as<__m128>(x)));
#else
  Floats y;
  for (int i = 0; i < kLanes; ++i) y[i] = __builtin_sqrtf(x[i]);
  return y;
#endif
}

/// 64-bit products of the even elements.
inline Longs multiply_even(Longs a, Longs b) {
#if defined(__AVX512F__)
  return bits_as<Longs>(_mm512_maskz_mul_epu32(0xff, bits_as<__m512i>(a), bits_as<__m512i>(b)));
#elif defined(__AVX2__)
  return bits_as<Longs>(_mm256_mul_epu32(bits_as<__m256i>(a), bits_as<__m256i>(b)));
#elif defined(__x86_64__)
  return bits_as<Longs>(_mm_mul_epu32(bits_as<__m128i>(a), bits_as<__m128i>(b)));
#else
  typedef uint32_t Lower __attribute__((vector_size(2 * kLanes)));
  return __builtin_convertvector(__builtin_convertvector(a, Lower), Longs) *
         __builtin_convertvector(__builtin_convertvector(b, Lower), Longs);
#endif
}

/// Interleaves the lower (upper) halves of every 128 bits: a0 b0 a1 b1 (a2 b2 a3 b3).
inline Uints zip_low(Uints a, Uints b) {
#if defined(__AVX512F__)
  return bits_as<Uints>(_mm512_maskz_unpacklo_epi32(0xffff, bits_as<__m512i>(a), bits_as<__m512i>(b)));
#elif defined(__AVX2__)
  return bits_as<Uints>(_mm256_unpacklo_epi32(bits_as<__m256i>(a), bits_as<__m256i>(b)));
#else
  return __builtin_shufflevector(a, b, 0, 4, 1, 5);
#endif
}
inline Uints zip_high(Uints a, Uints b) {
#if defined(__AVX512F__)
  return bits_as<Uints>(_mm512_maskz_unpackhi_epi32(0xffff, bits_as<__m512i>(a), bits_as<__m512i>(b)));
#elif defined(__AVX2__)
  return bits_as<Uints>(_mm256_unpackhi_epi32(bits_as<__m256i>(a), bits_as<__m256i>(b)));
#else
  return __builtin_shufflevector(a, b, 2, 6, 3, 7);
#endif
}
/// Transposes the 4×4 blocks of 32-bit elements that lie in the same 128 bits of w[0 … 3].
inline void transpose_blocks(Uints w[4]) {
  const Uints a = zip_low(w[0], w[2]), b = zip_high(w[0], w[2]);  // rows 0 2 interleaved
  const Uints c = zip_low(w[1], w[3]), d = zip_high(w[1], w[3]);
  w[0] = zip_low(a, c);
  w[1] = zip_high(a, c);
  w[2] = zip_low(b, d);
  w[3] = zip_high(b, d);
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
