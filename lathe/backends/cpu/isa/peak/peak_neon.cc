#include <arm_neon.h>

#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_f32(int64_t rounds) {
  volatile float factor = 0.5f;  // or the compiler multiplies
  const float32x4_t a = vdupq_n_f32(factor), b = vdupq_n_f32(factor);
  return peak_loop<24, 8>(
      rounds, [](float x) { return vdupq_n_f32(x); }, [=](float32x4_t s) { return vfmaq_f32(s, a, b); });
}

}  // namespace

const PeakKernel kPeakNeon = {peak_f32, nullptr, nullptr, nullptr};

}  // namespace lathe::cpu
