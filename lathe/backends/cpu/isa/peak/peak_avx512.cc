#include <immintrin.h>

#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_f32(int64_t rounds) {
  volatile float factor = 0.5f;  // or the compiler multiplies
  const __m512 a = _mm512_set1_ps(factor), b = _mm512_set1_ps(factor);
  return peak_loop<24, 32>(
      rounds, [](float x) { return _mm512_set1_ps(x); }, [=](__m512 s) { return _mm512_fmadd_ps(a, b, s); });
}

}  // namespace

const PeakKernel kPeakAvx512 = {peak_f32, nullptr, nullptr, nullptr};

}  // namespace lathe::cpu
