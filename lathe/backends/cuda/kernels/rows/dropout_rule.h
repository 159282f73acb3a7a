#pragma once
#include <cstdint>

namespace lathe::cuda {

/// Dropout at one site (lathe/core/philox.h): elements whose 16 bits lie below the threshold become 0, the
/// others are multiplied by `scale`.  threshold 0: nothing is dropped.
struct DropoutRule {
  uint32_t site = 0, threshold = 0;
  float scale = 1;
  const uint32_t* rng = nullptr;  ///< on the device: seed, update step
};

}  // namespace lathe::cuda
