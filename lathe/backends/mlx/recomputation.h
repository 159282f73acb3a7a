#pragma once
#include <map>
#include <vector>

#include "lathe/program/program.h"

namespace lathe::mlx {

/// With which nodes the backward pass begins to compute something once more (gradient checkpointing): those
/// that are as a node of a segment, and read nothing that is computed once more itself.  Each with the values
/// that have been computed since the one before and are read later.
std::map<size_t, std::vector<int>> recomputations(const Program& program);

}  // namespace lathe::mlx
