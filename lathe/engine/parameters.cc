#include "lathe/engine/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/float16.h"
#include "lathe/engine/programs.h"

namespace lathe {
namespace {

/// Bytes of a state that are copied in one piece if they need memory in between.
constexpr size_t kPart = size_t{1} << 20;

const nn::Parameter& parameter(const TaskModel& model, int index) {
  const std::vector<nn::Parameter>& all = model.parameters();
  if (index < 0 || index >= std::ssize(all))
    fail(ErrorCode::kUsage, "the model has no parameter {}, expected 0 to {}", index, std::ssize(all) - 1);
  return all[static_cast<size_t>(index)];
}

}  // namespace

Parameters::Parameters(Backend& backend, const TaskModel& model, const OptimizerOptions& optimizer,
                       bool shard_states, const nn::StorageRule& storage)
    : backend_(backend), model_(model), optimizer_(optimizer), layout_(nn::layout_of(model, storage)) {
  if (const ProcessGroup* group = backend.group(); shard_states && group != nullptr)
    shards_ = shards_of(layout_.trainable, group->size(), group->rank());
  allocate(nn::kTrainedState, static_cast<size_t>(layout_.trainable) * sizeof(float));
  allocate_frozen();
}

/// Devices give memory in large pages, so all frozen blocks share one piece of it where a buffer is an
/// address.
void Parameters::allocate_frozen() {
  constexpr size_t kAlignment = 256;
  std::vector<std::pair<const std::string*, size_t>> states;
  size_t all = 0;
  for (size_t b = 0; b < layout_.blocks.size(); ++b) {
    const nn::Layout::Place& at = layout_.blocks[b];
    if (at.state == nn::kTrainedState) continue;
    states.emplace_back(&at.state, bytes_of({at.dtype, model_.blocks()[b].shape}));
    all += round_up(states.back().second, kAlignment);
  }
  if (!backend_.info().caller_memory) {
    for (const auto& [state, bytes] : states) allocate(*state, bytes);
  } else if (all > 0) {
    const Buffer memory = backend_.allocate(all).value();
    size_t at = 0;
    for (const auto& [state, bytes] : states) {
      buffers_[*state] = {memory.owner, memory.data + at, bytes};
      at += round_up(bytes, kAlignment);
    }
  }
}

void Parameters::allocate(const std::string& name, size_t bytes) {
  buffers_[name] = backend_.allocate(bytes).value();
}

Parameters::Place Parameters::place(int index) const {
  static_cast<void>(parameter(model_, index));
  const nn::Layout::Place& at = layout_.parameters[static_cast<size_t>(index)];
  return {buffers_.at(at.state), static_cast<size_t>(at.offset) * size_of(at.dtype), at.dtype};
}

void Parameters::write(int index, std::span<const float> values) {
  write(index, {DType::f32, {std::ssize(values)}, std::as_bytes(values)});
}

void Parameters::write(int index, const TensorView& values, std::shared_ptr<const void> owner) {
  const nn::Parameter& p = parameter(model_, index);
  if (elements(values.shape) != elements(p.shape))
    fail(ErrorCode::kShape, "parameter {}: {} values given, expected {}", p.name, elements(values.shape),
         to_string(p.shape));
  const Place to = place(index);
  std::vector<float> room;
  const std::span<const float> exact = f32_of(values, room);
  const bool same = !p.trainable && holds(index, std::as_bytes(exact));
  if (!p.trainable && !same) ++frozen_version_;
  if (to.dtype != DType::f32) {
    if (same && exact_.contains(index)) return;  // what keeps them stays: another file may soon be gone
    exact_[index] = {values, owner};
    if (owner == nullptr) {
      const auto copy = std::make_shared<const std::vector<float>>(exact.begin(), exact.end());
      exact_[index] = {{DType::f32, p.shape, std::as_bytes(std::span(*copy))}, copy};
    }
  }
  copy_in(to, exact).check();
}

Status Parameters::copy_in(const Place& to, std::span<const float> values) const {
  if (to.dtype == DType::f32) return backend_.copy_in(to.buffer, to.offset, std::as_bytes(values));
  Status status;
  std::vector<uint16_t> part;
  for (size_t begin = 0; begin < values.size() && status.ok(); begin += part.size()) {
    part.resize(std::min(values.size() - begin, kPart / sizeof(uint16_t)));
    for (size_t i = 0; i < part.size(); ++i)
      part[i] = to.dtype == DType::bf16 ? to_bf16(values[begin + i]).bits : to_f16(values[begin + i]).bits;
    status =
        backend_.copy_in(to.buffer, to.offset + begin * sizeof(uint16_t), std::as_bytes(std::span(part)));
  }
  return status;
}

bool Parameters::holds(int index, std::span<const std::byte> values) const {
  std::vector<std::byte> part(std::min(values.size(), kPart));
  for (size_t at = 0; !values.empty(); values = values.subspan(part.size()), at += part.size()) {
    part.resize(std::min(values.size(), kPart));
    read(index, at, part).check();
    if (std::memcmp(part.data(), values.data(), part.size()) != 0) return false;
  }
  return true;
}

std::vector<float> Parameters::read(int index) const {
  std::vector<float> values(static_cast<size_t>(elements(parameter(model_, index).shape)));
  read(index, 0, std::as_writable_bytes(std::span(values))).check();
  return values;
}

Status Parameters::read(int index, size_t begin, std::span<std::byte> out) const {
  const Place from = place(index);
  if (from.dtype == DType::f32) return backend_.copy_out(out, from.buffer, from.offset + begin);
  const auto known = exact_.find(index);
  if (known == exact_.end()) {
    std::ranges::fill(out, std::byte{0});  // nothing was written yet
    return {};
  }
  const TensorView& all = known->second.values;
  const size_t first = begin / sizeof(float), end = ceil_div(begin + out.size(), sizeof(float));
  std::vector<float> room(end - first);
  to_f32({all.dtype,
          {static_cast<int64_t>(end - first)},
          all.bytes.subspan(first * size_of(all.dtype), (end - first) * size_of(all.dtype))},
         room.data());
  std::memcpy(out.data(), std::as_bytes(std::span(room)).data() + begin % sizeof(float), out.size());
  return {};
}

std::vector<OptimizerState> Parameters::optimizer_states() const {
  return lathe::optimizer_states(optimizer_, flat_parameters(model_));
}

int64_t Parameters::state_size(const std::string& name) const {
  for (const OptimizerState& state : optimizer_states())
    if (state.name == name) return state.size;
  return layout_.trainable;
}

/// States with an element per parameter are sharded; others are small.
bool Parameters::is_sharded(const std::string& name) const {
  if (shards_.empty()) return false;
  const std::vector<OptimizerState> states = optimizer_states();
  return std::ranges::any_of(states, [&](const OptimizerState& state) {
    return state.name == name && state.size == layout_.trainable;
  });
}

std::vector<float> Parameters::read_state(const std::string& name) const {
  const int64_t count = is_sharded(name) ? shards_.count() : state_size(name);
  std::vector<float> values(static_cast<size_t>(count));
  read_state(name, 0, std::as_writable_bytes(std::span(values))).check();
  return values;
}

Status Parameters::read_state(const std::string& name, size_t begin, std::span<std::byte> out) const {
  const auto it = buffers_.find(name);
  if (it != buffers_.end()) return backend_.copy_out(out, it->second, begin);
  std::ranges::fill(out, std::byte{0});  // nothing was trained yet
  return {};
}

void Parameters::write_state(const std::string& name, std::span<const float> values) {
  if (const int64_t wanted = state_size(name); static_cast<int64_t>(values.size()) != wanted)
    fail(ErrorCode::kShape, "state {}: {} values given, expected {}", name, values.size(), wanted);
  write_state(name, 0, values);
}

void Parameters::write_state(const std::string& name, size_t begin, std::span<const float> values) {
  const auto wanted = static_cast<size_t>(state_size(name));
  if (begin > wanted || values.size() > wanted - begin)
    fail(ErrorCode::kShape, "state {}: values from {} to {} given, it has {}", name, begin,
         begin + values.size(), wanted);
  size_t own = 0, own_end = wanted;
  if (is_sharded(name)) {
    own = static_cast<size_t>(shards_.begin());
    own_end = own + static_cast<size_t>(shards_.count());
  }
  if (!buffers_.contains(name)) allocate(name, (own_end - own) * sizeof(float));
  const size_t first = std::max(begin, own), end = std::min(begin + values.size(), own_end);
  if (first >= end) return;
  const auto mine = values.subspan(first - begin, end - first);
  backend_.copy_in(buffers_.at(name), (first - own) * sizeof(float), std::as_bytes(mine)).check();
}

void Parameters::clear_state(const std::string& name) {
  const auto it = buffers_.find(name);
  if (it == buffers_.end()) return;  // nothing was trained yet: it comes as zeros
  const size_t size = it->second.bytes;
  const std::vector<std::byte> zeros(std::min(size, kPart));
  for (size_t at = 0; at < size; at += kPart)
    backend_.copy_in(it->second, at, std::span(zeros).first(std::min(kPart, size - at))).check();
}

void Parameters::clear_states() {
  for (const OptimizerState& state : optimizer_states()) clear_state(state.name);
}

Status Parameters::read_whole_state(const std::string& name, size_t begin, std::span<std::byte> out) const {
  if (!is_sharded(name)) return read_state(name, begin, out);
  const std::vector<OptimizerState> states = optimizer_states();
  const auto state = std::ranges::find(states, name, &OptimizerState::name);
  Status status;
  for (int r = 0; r < std::ssize(shards_.counts) && status.ok(); ++r) {
    const size_t first = static_cast<size_t>(shards_.begin(r)) * sizeof(float);
    const size_t last = first + static_cast<size_t>(shards_.counts[static_cast<size_t>(r)]) * sizeof(float);
    const size_t from = std::max(begin, first), to = std::min(begin + out.size(), last);
    if (from >= to) continue;
    const auto part = out.subspan(from - begin, to - from);
    PartRequest request{state - states.begin(), r, static_cast<int64_t>(from - first), std::ssize(part)};
    if (r != shards_.rank)
      status = backend_.group()->broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
    if (status.ok()) status = exchange(request, part);
  }
  return status;
}

Status Parameters::serve_states() const {
  std::vector<std::byte> part;
  while (!shards_.empty()) {
    PartRequest request;
    Status status = backend_.group()->broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
    if (!status.ok() || request.bytes == 0) return status;
    part.resize(static_cast<size_t>(request.bytes));
    if (status = exchange(request, part); !status.ok()) return status;
  }
  return {};
}

Status Parameters::end_reads() const {
  if (shards_.empty()) return {};
  PartRequest none;
  return backend_.group()->broadcast(std::as_writable_bytes(std::span(&none, 1)), 0);
}

/// The owner reads the part and sends it to all ranks, unless rank 0 is the owner.
Status Parameters::exchange(const PartRequest& request, std::span<std::byte> part) const {
  if (request.rank == shards_.rank) {
    const std::string name = optimizer_states()[static_cast<size_t>(request.state)].name;
    const Status status = read_state(name, static_cast<size_t>(request.begin), part);
    if (!status.ok() || request.rank == 0) return status;
  }
  return backend_.group()->broadcast(part, static_cast<int>(request.rank));
}

}  // namespace lathe
