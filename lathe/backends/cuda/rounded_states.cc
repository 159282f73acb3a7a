#include "lathe/backends/cuda/rounded_states.h"

#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_fp8.h"

namespace lathe::cuda {

std::optional<StatePlace> state_of(const Program& program, int value) {
  int64_t offset = 0;
  for (int id = value; id >= 0;) {
    const ValueInfo& info = program.values()[static_cast<size_t>(id)];
    if (info.kind == ValueKind::kState) return StatePlace{id, offset};
    if (info.producer < 0) return {};
    const Node& node = program.nodes()[static_cast<size_t>(info.producer)];
    if (node.op->aliasing != Aliasing::kSlice) return {};
    offset += node.attrs.i("offset");
    id = node.in[0];
  }
  return {};
}

bool on_vectors(const Program& program, int value, DType type) {
  const auto place = state_of(program, value);
  return !place || place->offset * static_cast<int64_t>(size_of(type)) % 16 == 0;
}

RoundedInputs rounded_inputs(const Node& node, const Program& program) {
  const bool forward = node.op == &op::linear || node.op == &op::linear_gelu || node.op == &op::linear_fp8;
  const bool backward = node.op == &op::linear_bwd_input || node.op == &op::linear_bwd_input_add ||
                        node.op == &op::linear_fp8_bwd_input || node.op == &op::linear_fp8_bwd_input_add;
  if (!forward && !backward) return {};
  const DType type = program.type(node.in[0]).dtype;
  if (type == DType::f32) return {};
  RoundedInputs inputs{.type = type};
  const bool rounds = program.type(node.in[1]).dtype != type;
  if (rounds && state_of(program, node.in[1])) inputs.weight = node.in[1];
  const int bias = forward ? node.in[2] : -1;
  if (bias >= 0 && state_of(program, bias) && on_vectors(program, bias, type)) inputs.bias = bias;
  return inputs;
}

const RoundedState::Copy* RoundedState::find(DType type) const {
  for (const Copy& copy : copies_)
    if (copy.type == type) return &copy;
  return nullptr;
}

std::byte* RoundedState::copy(DType type, cudaStream_t stream) {
  if (const Copy* known = find(type)) return known->memory.data;
  copies_.push_back({type, allocate(count_ * size_of(type), Memory::kDevice, stream).value()});
  return copies_.back().memory.data;
}

RoundedState::Written RoundedState::written_by_adamw() const {
  return copies_.empty() ? Written{} : Written{copies_[0].memory.data, copies_[0].type};
}

void RoundedState::changed() { updated({}); }

void RoundedState::updated(const Written& by) {
  for (Copy& copy : copies_) copy.stale = copy.stale || copy.memory.data != by.data;
}

void RoundedState::refresh(cudaStream_t stream) {
  for (Copy& copy : copies_) {
    if (!copy.stale) continue;
    cast(stream, DType::f32, copy.type, static_cast<int64_t>(count_), state_, copy.memory.data);
    copy.stale = false;
  }
}

std::shared_ptr<RoundedState> RoundedStates::of(const Buffer& state) {
  const std::lock_guard lock(mutex_);
  Known& known = states_[state.data];
  if (known.owner.expired()) known = {state.owner, std::make_shared<RoundedState>(state)};
  return known.state;
}

bool RoundedStates::has(const Buffer& state, DType type) const {
  const std::lock_guard lock(mutex_);
  const auto it = states_.find(state.data);
  return it != states_.end() && !it->second.owner.expired() && it->second.state->has(type);
}

void RoundedStates::forget_freed() {
  const std::lock_guard lock(mutex_);
  std::erase_if(states_, [](const auto& known) { return known.second.owner.expired(); });
}

void RoundedStates::changed(const Buffer& state) {
  const std::lock_guard lock(mutex_);
  const auto it = states_.find(state.data);
  if (it != states_.end() && !it->second.owner.expired()) it->second.state->changed();
}

}  // namespace lathe::cuda
