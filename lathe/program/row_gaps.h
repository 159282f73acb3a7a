#pragma once
#include "lathe/program/memory_plan.h"

namespace lathe {

/// MemoryPlan::Place::ld of every value.  A temporary matrix has gaps if RowGap asks for them and every node
/// that touches it takes them.  Matrices of one type that meet in a node either all have gaps or none has.
std::vector<int64_t> row_gaps(const Program& program, const Selection& selection, RowGap gap);

/// Bytes from the first element to the end of the last row, with the gap after it.
size_t placed_bytes(const Type& type, int64_t ld);

}  // namespace lathe
