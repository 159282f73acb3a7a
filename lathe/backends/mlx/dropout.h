#pragma once
#include "lathe/backends/mlx/lowering.h"

// Dropout's decisions (lathe/core/philox.h).  Masks of nodes that differ only by their site are made
// together, so that a step needs few launches for them; what Philox computes with stays within
// kTogetherBytes.  The forward pass makes the masks and the backward pass reads them again: bytes, one
// decision each.

namespace lathe::mlx {

/// Which elements dropout keeps, bool [.., cols], `..` being the common shape of `position` and `sample`, u32
/// [.., 1].  The node's attributes give site and p; its last three operands are those of the decisions.
mx::array kept(const Call& c, int cols, const mx::array& position, const mx::array& sample,
               const mx::array& rng);
/// kept ? x / (1 − p) : 0, x of f32.
mx::array drop(const mx::array& x, const mx::array& kept, double p);

/// What `kept` takes for a node whose mask is made of `calls` of Philox, where it is the first of those made
/// together, else nothing: while it computes, and from then on for the masks.
size_t deciding_bytes(const Node& node, const Program& program, size_t calls);
Held masks_of(const Node& node, const Program& program, size_t calls);

}  // namespace lathe::mlx
