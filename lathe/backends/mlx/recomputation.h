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

/// Nodes of the backward pass that compute once more what the forward pass has computed.  There are two
/// kinds: nodes with which gradient checkpointing begins to do so (they equal a node of a segment and read
/// nothing that is itself computed once more), and nodes whose op does so by itself.  All wait for what has
/// been computed since the previous one and is read later; those of the second kind also wait for their
/// gradient.
std::map<size_t, Waiting> recomputations(const Program& program);

}  // namespace lathe::mlx
