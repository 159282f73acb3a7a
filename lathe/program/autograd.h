#pragma once
#include <vector>

#include "lathe/program/program.h"

namespace lathe {

/// Appends the backward pass of `loss` [1] to its program by each op's gradient rule, newest node first, and
/// returns dL/dw for every w of `wrt`.  `seed` [1] is dL/dloss; `sum` is the op that adds two gradients of
/// one value.  Only nodes between `wrt` and `loss` are visited.
///
/// The values of a segment (SegmentScope) are computed again right before the rules that read them, in the
/// same way and to the same bits.  Only what flowed into the segment, or from it to others, is kept from the
/// forward pass.  Program::remove_dead_nodes then removes what no rule reads.  Errors: kUnsupported if
/// an op on the way has no gradient (the message names it); kInternal if none flows to a w (the message names
/// it).
std::vector<Value> gradients(Value loss, Value seed, const std::vector<Value>& wrt, const OpDef& sum);

}  // namespace lathe
