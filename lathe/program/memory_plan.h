#pragma once
#include <span>

#include "lathe/program/backend.h"

namespace lathe {

/// Matrices of two-byte elements whose rows are a multiple of `every` bytes long are read faster with `bytes`
/// of gap between one row and the next: without it their lines fall on few sets of a cache.  0: no gaps.
struct RowGap {
  size_t every = 0, bytes = 0;
};

/// Memory that is neither a value nor a workspace, in use from node `first` to node `last`.
struct Held {
  size_t bytes = 0;
  int first = 0, last = 0;
};

/// Gives every value of the program its place: lifetimes → offsets in one arena, largest first.  held: only
/// counted, for estimates.  Errors: kInternal if a value is read after a node that updates it in place.
MemoryPlan plan_memory(const Program& program, const Selection& selection, size_t alignment, RowGap gap = {},
                       std::span<const Held> held = {});

}  // namespace lathe
