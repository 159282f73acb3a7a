#include <immintrin.h>

#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_f32(int64_t rounds) {
  volatile float factor = 0.5f;  // or the compiler multiplies
  const __m256 a = _mm256_set1_ps(factor), b = _mm256_set1_ps(factor);
  return peak_loop<12, 16>(
      rounds, [](float x) { return _mm256_set1_ps(x); }, [=](__m256 s) { return _mm256_fmadd_ps(a, b, s); });
}

}  // namespace

const PeakKernel kPeakAvx2 = {peak_f32, nullptr, nullptr, nullptr};

}  // namespace lathe::cpu
