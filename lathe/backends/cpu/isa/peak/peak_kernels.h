#pragma once
#include <stdint.h>

// Loops of one instruction each, for measuring.  This header is seen by isa/peak_*.cc: no inline code here.

namespace lathe::cpu {

/// Each runs `rounds` rounds of independent sums and returns its multiply-adds times two; null where the
/// level has no such instruction of its own.
struct PeakKernel {
  double (*f32)(int64_t rounds);
  double (*bf16)(int64_t rounds);
  /// The same with operands that are read once from the begin of `bytes` of memory, aligned to 64; and over
  /// and over.
  double (*bf16_of)(int64_t rounds, const char* memory, int64_t bytes);
  double (*bf16_from)(int64_t rounds, const char* memory, int64_t bytes);
};

extern const PeakKernel kPeakPortable;
extern const PeakKernel kPeakAvx2;
extern const PeakKernel kPeakAvx512;
extern const PeakKernel kPeakAvx512Bf16;
extern const PeakKernel kPeakAmx;
extern const PeakKernel kPeakNeon;
extern const PeakKernel kPeakNeonBf16;

}  // namespace lathe::cpu
