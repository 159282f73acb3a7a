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

/// What of `memory` none of the calls touches.
Touched untouched(std::span<const Touched> calls, std::span<const std::byte> memory);

/// The node from which on `node`'s outputs and workspace are kept free, so that they lie where nothing has
/// lain while the nodes before it read and wrote so many bytes.
int untouched_since(int node, const Program& program, size_t bytes);

/// For a list of calls that runs again and again: whether the larger part of `memory`, which call `at`
/// writes, has left the caches by then.  A store to such memory first reads what it overwrites, unless it
/// goes past the caches. A byte has left them when the calls behind the last one that touched it touch 64 MB,
/// each operand counted as often as it is named; one that no other call touches, when the whole list does.
/// The bound: on two cores with AMX (2 MB of L2 each) products slowed down where their results went round 50
/// to 100 MB.
bool is_cold(std::span<const Touched> calls, size_t at, std::span<const std::byte> memory);

}  // namespace lathe::cpu
