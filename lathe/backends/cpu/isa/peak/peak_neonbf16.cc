#include <arm_neon.h>

#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_bf16(int64_t rounds) {
  volatile float factor = 0.5f;
  const bfloat16x4_t half = vcvt_bf16_f32(vdupq_n_f32(factor));
  const bfloat16x8_t a = vcombine_bf16(half, half);
  return peak_loop<24, 32>(
      rounds, [](float x) { return vdupq_n_f32(x); }, [=](float32x4_t s) { return vbfmmlaq_f32(s, a, a); });
}

}  // namespace

const PeakKernel kPeakNeonBf16 = {nullptr, peak_bf16, nullptr, nullptr};

}  // namespace lathe::cpu
