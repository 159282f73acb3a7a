#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "lathe/core/token_rounding.h"
#include "lathe/engine/programs.h"

namespace lathe {

/// Bytes that runs need in addition to what a session holds, known before anything is allocated.
struct MemoryNeed {
  uint64_t activations = 0;  ///< the arena: also batches, workspaces and the gradients of a step
  uint64_t states = 0;       ///< optimizer state, accumulated gradients
  uint64_t prepared = 0;     ///< what the device lays out for itself: weights for its products
  uint64_t total() const { return activations + states + prepared; }
};

/// Runs that do not fit, and how to find out what would fit.
struct MemoryShortage {
  ProgramKind kind;  ///< of the run that takes most
  Bucket bucket;
  bool recomputes = false;  ///< with gradient checkpointing
  MemoryNeed need;
  uint64_t free = 0;
  int sharers = 1;  ///< processes, each of which has this much
  std::string device;
  std::string remedy;  ///< Backend::way_out
  TokenRounding rounding;
  std::function<uint64_t(Bucket, bool recompute)> need_of;  ///< bytes for that run at another size
};

/// "out of memory: …": what was needed, what is there, and the way out, with the largest batch of rows of
/// this length that fits.
std::string to_string(const MemoryShortage& shortage);

}  // namespace lathe
