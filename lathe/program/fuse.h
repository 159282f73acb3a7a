#pragma once
#include <span>

#include "lathe/program/backend.h"
#include "lathe/program/fusion.h"

namespace lathe {

/// Replaces plain ops by fused ops that do the same, wherever the backend has an implementation of the
/// fused op that accepts the node.  Comes after autograd, which knows only plain ops.  `fusions`: those of
/// more parts before those of fewer, because a node can be part of only one.
///
/// The fused node takes the place of the last of its parts.  Parts are not fused if
/// - a value that the fused op does not give is read by others, or is an output of the program;
/// - one that it does give is read by others before that place;
/// - something is updated in place between the first part and the last;
/// - they are not of one segment: what a backward pass computes again belongs to none, and the forward pass
///   keeps its segments.
/// Outputs without a reader do not matter.  Value ids stay.  Linear in the number of nodes.
void fuse(Program& program, const Backend& backend, std::span<const Fusion> fusions);

}  // namespace lathe
