#include "lathe/program/bindings.h"

#include <fmt/format.h>

namespace lathe {

Status check_states(const Program& program, const Bindings& bindings) {
  for (const ValueInfo& value : program.values()) {
    if (value.kind != ValueKind::kState) continue;
    const auto bound = bindings.states.find(value.name);
    if (bound == bindings.states.end() || bound->second.bytes < bytes_of(value.type))
      return {ErrorCode::kInternal,
              fmt::format("no memory of {} is bound to state {}", to_string(value.type), value.name)};
  }
  return {};
}

Status check_bindings(const Program& program, const MemoryPlan& plan, const Bindings& bindings) {
  if (bindings.arena.bytes < plan.arena_bytes)
    return {ErrorCode::kInternal,
            fmt::format("the arena has {} bytes, expected {}", bindings.arena.bytes, plan.arena_bytes)};
  return check_states(program, bindings);
}

std::vector<size_t> input_bytes(const Program& program) {
  std::vector<size_t> bytes;
  for (const ValueInfo& value : program.values())
    if (value.kind == ValueKind::kInput) bytes.push_back(bytes_of(value.type));
  return bytes;
}

Status check_inputs(const Slot& slot, std::span<const size_t> bytes) {
  if (slot.inputs.size() != bytes.size())
    return {ErrorCode::kInternal,
            fmt::format("found {} inputs, expected {}", slot.inputs.size(), bytes.size())};
  for (size_t i = 0; i < bytes.size(); ++i)
    if (slot.inputs[i].size() != bytes[i])
      return {ErrorCode::kInternal,
              fmt::format("input {}: found {} bytes, expected {}", i, slot.inputs[i].size(), bytes[i])};
  return {};
}

std::byte* address_of(int id, const Program& program, const MemoryPlan& plan, const Bindings& bindings) {
  if (id < 0) return nullptr;
  const MemoryPlan::Place& place = plan.places[static_cast<size_t>(id)];
  if (place.state < 0) return bindings.arena.data + place.offset;
  return bindings.states.at(program.values()[static_cast<size_t>(place.state)].name).data + place.offset;
}

}  // namespace lathe
