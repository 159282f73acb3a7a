#include "lathe/backends/cpu/isa/peak/peak_loop.h"

namespace lathe::cpu {
namespace {

double peak_f32(int64_t rounds) {
  constexpr int kSums = 32;
  float sums[kSums] = {};
  for (int64_t r = 0; r < rounds; ++r)
    for (float& s : sums) s = s * 0.999f + 0.5f;
  [[maybe_unused]] volatile float sink;
  for (float s : sums) sink = s;
  return 2.0 * kSums * static_cast<double>(rounds);
}

}  // namespace

const PeakKernel kPeakPortable = {peak_f32, nullptr, nullptr, nullptr};

}  // namespace lathe::cpu
