#pragma once
#include <map>
#include <vector>

#include "lathe/program/program.h"

namespace lathe::mlx {

/// A node whose input waits until values are there.
struct Waiting {
  size_t input;
  std::vector<int> values;
};

/// Nodes of the backward pass that compute once more what the forward pass has: those with which gradient
/// checkpointing begins to do so, which are as a node of a segment and read nothing that is computed once
/// more itself, and those whose op does so for itself.  They wait for what has been computed since the one
/// before and is read later, the latter for their gradient, too.
std::map<size_t, Waiting> recomputations(const Program& program);

}  // namespace lathe::mlx
