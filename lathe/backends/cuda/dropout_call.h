#pragma once
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/dropout_rule.h"
#include "lathe/core/philox.h"

namespace lathe::cuda {

/// The rule of a node with attributes site and p; rng: its input of that name.
inline DropoutRule dropout_rule(const Call& c, int rng) {
  const double p = c.node.attrs.f("p");
  return {static_cast<uint32_t>(c.node.attrs.i("site")), dropout_threshold(p), dropout_scale(p),
          c.input<uint32_t>(rng)};
}

}  // namespace lathe::cuda
