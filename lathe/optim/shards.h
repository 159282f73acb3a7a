#pragma once
#include <cstdint>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe {

/// Which rank holds the optimizer's states of which parameters: the elements of the flat tensor of all
/// parameters, cut into one range per rank.  Without counts every rank holds all.
/// Source: S. Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models",
/// SC 2020, stage 1.
struct Shards {
  std::vector<int64_t> counts;  ///< elements of each rank's range; the ranges follow each other
  int rank = 0;                 ///< this process's

  bool empty() const { return counts.empty(); }
  int64_t begin(int of) const;
  int64_t begin() const { return begin(rank); }
  int64_t count() const { return counts[static_cast<size_t>(rank)]; }
};

/// Equal ranges, but each begins on a whole vector.  Errors: kUsage if there are fewer parameters than ranks.
Shards shards_of(int64_t parameters, int ranks, int rank);

/// The parameters and gradients of this rank's range, as views; all of them without shards.
/// Parameters come as one vector: for optimizers that work element by element.
FlatParameters own_part(const FlatParameters& parameters, const Shards& shards);
FlatGradients own_part(const FlatGradients& gradients, const Shards& shards);
/// The gradients of the parameters' elements [begin, end), as views.
FlatGradients part_of(const FlatGradients& gradients, int64_t begin, int64_t end);

}  // namespace lathe
