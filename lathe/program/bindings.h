#pragma once
#include <cstddef>

#include "lathe/core/error.h"
#include "lathe/program/backend.h"
#include "lathe/program/program.h"

namespace lathe {

/// Refuses memory that does not hold the program's states.  Errors: kInternal, naming the first of them.
Status check_states(const Program& program, const Bindings& bindings);

/// Refuses what check_states does, and an arena that is smaller than the plan's.  Errors: kInternal.
Status check_bindings(const Program& program, const MemoryPlan& plan, const Bindings& bindings);

/// Bytes of every input, in the program's order.
std::vector<size_t> input_bytes(const Program& program);

/// Refuses a slot whose inputs do not have these sizes in bytes.  Errors: kInternal.
Status check_inputs(const Slot& slot, std::span<const size_t> bytes);

/// The address of a value.  Null for an id below 0: an operand that is left out.
std::byte* address_of(int id, const Program& program, const MemoryPlan& plan, const Bindings& bindings);

}  // namespace lathe
