#include <immintrin.h>

#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_bf16(int64_t rounds) {
  volatile float factor = 0.5f;
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  return peak_loop<24, 64>(
      rounds, [](float x) { return _mm512_set1_ps(x); }, [=](__m512 s) { return _mm512_dpbf16_ps(s, a, a); });
}

}  // namespace

const PeakKernel kPeakAvx512Bf16 = {nullptr, peak_bf16, nullptr, nullptr};

}  // namespace lathe::cpu
