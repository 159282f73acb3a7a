#include "lathe/backends/mlx/mlx_executable.h"

#include <mlx/primitives.h>

#include <chrono>
#include <cstring>
#include <set>

#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/ops/attention.h"
#include "lathe/program/bindings.h"

namespace lathe::mlx {
namespace {

/// Primitives that give another view of memory and launch nothing.
bool is_view(const std::string& primitive) {
  static const std::set<std::string> names = {
      "AsStrided", "Broadcast", "BroadcastAxes", "Depends",      "ExpandDims", "Flatten",  "Reshape",
      "Slice",     "Split",     "Squeeze",       "StopGradient", "Transpose",  "Unflatten"};
  return names.contains(primitive) || primitive.starts_with("View ");  // with the dtype
}

/// The primitives of the graph that computes these arrays, each once.
Launches primitives_of(const Arrays& results) {
  Launches launches;
  std::set<const mx::Primitive*> seen;
  std::vector<mx::array> open = results;
  while (!open.empty()) {
    const mx::array array = open.back();
    open.pop_back();
    if (!array.has_primitive() || !seen.insert(array.primitive_ptr().get()).second) continue;
    const std::string name = array.primitive().name();
    if (!is_view(name)) ++launches[name.starts_with("Compiled") ? "Compiled" : name];
    open.insert(open.end(), array.inputs().begin(), array.inputs().end());
  }
  return launches;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// MLX computes equal parts of a graph once, and would keep what the backward pass must compute again.  The
/// parts are not equal any more if those of the backward pass wait for what comes before them; so the plan
/// also sets the order.
void hold_back(Call& call, const Waiting& waiting, const std::vector<std::optional<mx::array>>& values) {
  Arrays before;
  for (const int id : waiting.values) before.push_back(*values[static_cast<size_t>(id)]);
  auto& input = call.in[waiting.input];
  input = mx::depends({*input}, before)[0];
}

}  // namespace

Status guarded(Device& device, const char* doing, const std::function<void()>& f) {
  const std::lock_guard lock(device.mutex);
  try {
    const mx::StreamContext on(device.stream);
    f();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    const bool memory = std::string(error.what()).find("alloc") != std::string::npos;
    return {memory ? ErrorCode::kMemory : ErrorCode::kInternal,
            fmt::format("mlx: {}: {}", doing, error.what())};
  }
}

MlxExecutable::MlxExecutable(Device& device, const Program& program, const Selection& selection,
                             const Bindings& bindings)
    : device_(device), program_(program), selection_(selection), recomputations_(recomputations(program)) {
  for (size_t id = 0; id < program.values().size(); ++id) {
    (void)shape_of(program.values()[id].type.shape);  // which refuses what MLX cannot hold
    if (program.values()[id].kind == ValueKind::kInput) inputs_.push_back(static_cast<int>(id));
  }
  std::set<int> bounds;
  for (size_t n = 0; n < program.nodes().size(); ++n) {
    const Node& node = program.nodes()[n];
    if (!selection[n]->key.empty()) continue;  // own kernels pad nothing
    if (node.op->name == std::string(op::attention.name)) bounds.insert(node.in[1]);
    if (node.op->name == std::string(op::attention_bwd.name)) bounds.insert(node.in[4]);
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (bounds.contains(inputs_[i])) bounds_.push_back(i);
  follow_states(bindings);
}

MlxExecutable::~MlxExecutable() {
  (void)guarded(device_, "releasing a program", [&] {
    functions_.clear();
    for (Flight& flight : ring_) flight.outputs.clear();
  });
}

void MlxExecutable::follow_states(const Bindings& bindings) {
  check_states(program_, bindings).check();
  std::map<int, size_t> holder;  // value → state
  for (size_t id = 0; id < program_.values().size(); ++id) {
    const ValueInfo& value = program_.values()[id];
    if (value.kind != ValueKind::kState) continue;
    holder[static_cast<int>(id)] = states_.size();
    states_.push_back({static_cast<int>(id), static_cast<int>(id),
                       std::static_pointer_cast<Cell>(bindings.states.at(value.name).owner)});
  }
  struct View {
    size_t state;
    int64_t offset;
    std::optional<size_t> part;  // of the state's parts, once it is updated
  };
  std::map<int, View> views;  // value → part of a state
  for (const Node& node : program_.nodes()) {
    if (node.op->aliasing == Aliasing::kSlice)
      if (const auto whole = holder.find(node.in[0]); whole != holder.end())
        views[node.out[0]] = {whole->second, node.attrs.i("offset"), {}};
    for (const InPlace& alias : node.op->in_place) {
      const int in = node.in[static_cast<size_t>(alias.in)], out = node.out[static_cast<size_t>(alias.out)];
      if (const auto found = holder.find(in); found != holder.end()) {
        states_[found->second].last = out;
        states_[found->second].parts.clear();  // which it takes in
        holder[out] = found->second;
      } else if (const auto view = views.find(in); view != views.end()) {
        const View& v = view->second;
        std::vector<Part>& parts = states_[v.state].parts;
        if (v.part)
          parts[*v.part].last = out;
        else
          parts.push_back({v.offset, out});
        views[out] = {v.state, v.offset, v.part ? v.part : parts.size() - 1};
      }
    }
  }
  for (State& state : states_) std::ranges::sort(state.parts, {}, &Part::offset);
}

/// The state when a run has ended: what was between updated parts is there as before.
mx::array MlxExecutable::new_value(const State& state,
                                   const std::vector<std::optional<mx::array>>& values) const {
  const mx::array& whole = *values[static_cast<size_t>(state.last)];
  if (state.parts.empty()) return whole;
  const mx::array flat = mx::flatten(whole);
  Arrays pieces;
  int at = 0;
  for (const Part& part : state.parts) {
    const int begin = static_cast<int>(part.offset);
    if (at < begin) pieces.push_back(mx::slice(flat, {at}, {begin}));
    pieces.push_back(mx::flatten(*values[static_cast<size_t>(part.last)]));
    at = begin + static_cast<int>(pieces.back().size());
  }
  if (const int end = static_cast<int>(flat.size()); at < end) pieces.push_back(mx::slice(flat, {at}, {end}));
  return mx::reshape(mx::concatenate(pieces), whole.shape());
}

int MlxExecutable::longest_row(const Slot& slot) const {
  int longest = 0;
  for (const size_t input : bounds_) {
    const std::span<const std::byte> bytes = slot.inputs[input];
    std::vector<int32_t> cu(bytes.size() / sizeof(int32_t));
    std::memcpy(cu.data(), bytes.data(), bytes.size());
    for (size_t row = 0; row + 1 < cu.size(); ++row) longest = std::max(longest, cu[row + 1] - cu[row]);
  }
  return longest == 0 ? 0 : static_cast<int>(length_bucket(longest));
}

Compiled& MlxExecutable::function_for(int longest) {
  for (size_t i = 0; i < functions_.size(); ++i)
    if (functions_[i].longest == longest) {
      std::rotate(functions_.begin(), functions_.begin() + static_cast<long>(i),
                  functions_.begin() + static_cast<long>(i) + 1);
      return *functions_.front().function;
    }
  if (functions_.size() == kFunctionsOfAProgram) functions_.pop_back();
  const auto body = [this, longest](const Arrays& inputs) { return lower(inputs, longest, false); };
  functions_.push_front({longest, std::make_unique<Compiled>(body)});
  return *functions_.front().function;
}

void MlxExecutable::lower_node(size_t n, int longest, Shared& shared,
                               std::vector<std::optional<mx::array>>& values) {
  const Node& node = program_.nodes()[n];
  Call call{
      node, program_, {}, longest, device_.constants, shared, device_.ranks ? &*device_.ranks : nullptr};
  for (const int id : node.in) call.in.push_back(id < 0 ? std::nullopt : values[static_cast<size_t>(id)]);
  if (const auto found = recomputations_.find(n); found != recomputations_.end())
    hold_back(call, found->second, values);
  const Arrays out = static_cast<const MlxImpl*>(selection_[n])->lower(call);
  for (size_t o = 0; o < out.size(); ++o) {
    const Type& type = program_.type(node.out[o]);
    if (out[o].shape() != shape_of(type.shape) || out[o].dtype() != dtype_of(type.dtype))
      fail(ErrorCode::kInternal, "mlx: {} gives no {} as output {}", node.op->name, to_string(type), o);
    values[static_cast<size_t>(node.out[o])] = out[o];
  }
}

Arrays MlxExecutable::lower(const Arrays& inputs, int longest, bool timed) {
  std::vector<std::optional<mx::array>> values(program_.values().size());
  Shared shared;
  if (device_.ranks) device_.ranks->last.reset();
  size_t next = 0;
  for (const int id : inputs_) values[static_cast<size_t>(id)] = inputs[next++];
  for (const State& state : states_) values[static_cast<size_t>(state.value)] = inputs[next++];
  for (size_t n = 0; n < program_.nodes().size(); ++n) {
    const int64_t begin = timed ? now_ns() : 0;
    lower_node(n, longest, shared, values);
    if (!timed) continue;
    Arrays out;
    for (const int id : program_.nodes()[n].out) out.push_back(*values[static_cast<size_t>(id)]);
    mx::eval(out);
    spans_.push_back({static_cast<int>(n), begin, now_ns()});
  }
  Arrays results;
  for (const auto& [name, id] : program_.outputs())
    results.push_back(mx::contiguous(*values[static_cast<size_t>(id)]));
  for (const State& state : states_)
    if (state.changes()) results.push_back(mx::contiguous(new_value(state, values)));
  return results;
}

Status MlxExecutable::check(const Slot& slot) const { return check_inputs(slot, input_bytes(program_)); }

Arrays MlxExecutable::inputs_of(const Slot& slot) {
  Arrays inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Type& type = program_.type(inputs_[i]);
    inputs.push_back(array_of(slot.inputs[i], shape_of(type.shape), dtype_of(type.dtype)));
  }
  for (const State& state : states_) {
    const Type& type = program_.type(state.value);
    const mx::Dtype dtype = dtype_of(type.dtype);
    mx::array& value = state.cell->value;
    if (value.dtype() != dtype) value = mx::view(value, dtype);
    if (const int count = static_cast<int>(elements(type)); value.size() > static_cast<size_t>(count))
      value = mx::slice(mx::flatten(value), {0}, {count});  // memory comes in whole floats
    if (value.shape() != shape_of(type.shape)) value = mx::reshape(value, shape_of(type.shape));
    inputs.push_back(value);
  }
  return inputs;
}

/// Puts the results of a run where they belong.
void MlxExecutable::take(Arrays results, uint64_t ticket) {
  const size_t outputs = program_.outputs().size();
  Flight& flight = ring_[ticket % kRing];
  flight.ticket = ticket;
  flight.outputs.assign(results.begin(), results.begin() + static_cast<long>(outputs));
  if (Flight& before = ring_[(ticket - 1) % kRing]; before.ticket == ticket - 1)
    for (size_t o = 0; o < before.outputs.size(); ++o)
      if (program_.is_of_last_run(o)) before.outputs[o].reset();
  size_t next = outputs;
  for (const State& state : states_)
    if (state.changes()) state.cell->value = results[next++];
}

Status MlxExecutable::run(const Slot& slot, Event* event) {
  if (Status status = check(slot); !status.ok()) return status;
  return guarded(device_, "running", [&] {
    const int longest = longest_row(slot);
    Arrays results;
    if (profile_) {
      spans_.clear();
      results = lower(inputs_of(slot), longest, true);
    } else {
      results = function_for(longest)(inputs_of(slot));
    }
    take(results, ++ticket_);
    *event = {ticket_};
    if (!device_.ranks) return mx::async_eval(std::move(results));
    mx::eval(std::move(results));  // on every rank the host's calls to the group come after the program's
    device_.ranks->failure.check();
  });
}

Result<Launches> MlxExecutable::launches(const Slot& slot) {
  Launches launches;
  if (Status status = check(slot); !status.ok()) return status;
  const Status status = guarded(device_, "counting launches", [&] {
    const struct Fusing {
      Fusing() { mx::set_compile_mode(mx::CompileMode::enabled); }
      ~Fusing() { mx::set_compile_mode(compile_mode()); }
    } fusing;
    const int longest = longest_row(slot);
    Compiled fused([&](const Arrays& inputs) { return lower(inputs, longest, false); });
    launches = primitives_of(fused(inputs_of(slot)));
  });
  if (!status.ok()) return status;
  return launches;
}

MlxExecutable::Flight* MlxExecutable::flight(Event event) {
  Flight& flight = ring_[event.ticket % kRing];
  return flight.ticket == event.ticket ? &flight : nullptr;
}

Status MlxExecutable::wait(Event event) {
  return guarded(device_, "waiting", [&] {
    Flight* found = flight(event);
    bool waited = false;
    if (found != nullptr)
      for (auto& output : found->outputs)
        if (output && !waited) output->wait(), waited = true;
    if (!waited) mx::synchronize(device_.stream);
  });
}

Status MlxExecutable::read(Event event, size_t index, std::span<std::byte> destination) {
  Flight* found = flight(event);
  if (found == nullptr || !found->outputs.at(index))
    return {ErrorCode::kInternal, fmt::format("mlx: output {} of run {} is gone", index, event.ticket)};
  return guarded(device_, "reading", [&] {
    mx::array& output = *found->outputs[index];
    if (destination.size() != output.nbytes())
      fail(ErrorCode::kInternal, "output {}: expected {} bytes, found {}", index, output.nbytes(),
           destination.size());
    output.wait();
    std::memcpy(destination.data(), output.data<std::byte>(), destination.size());
  });
}

}  // namespace lathe::mlx
