#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "lathe/program/program.h"

namespace lathe::cpu {

/// Memory that a call reads or writes, in any order.
using Touched = std::vector<std::span<const std::byte>>;

/// Whether a byte is in both.
bool meet(const Touched& a, const Touched& b);

/// The part of `memory` that no call touches.
Touched untouched(std::span<const Touched> calls, std::span<const std::byte> memory);

/// The first node from whose run on `node`'s outputs and workspace are reserved.  So their memory is not used
/// by anything else while the nodes from there to `node` read and write `bytes` bytes.
int untouched_since(int node, const Program& program, size_t bytes);

/// For a list of calls that runs again and again: whether the larger part of `memory`, which call `at`
/// writes, has left the caches by then.  A store to such memory first reads what it overwrites, unless it
/// goes past the caches.  A byte has left the caches when the calls after the last one that touched it touch
/// 64 MB; an operand counts as often as it is named.  For a byte that no other call touches, the whole list
/// counts.  The bound: on two cores with AMX (2 MB of L2 each), products slowed down where 50 to 100 MB were
/// touched between two writes of their results.
bool is_cold(std::span<const Touched> calls, size_t at, std::span<const std::byte> memory);

}  // namespace lathe::cpu
