#include "lathe/backends/cuda/cuda_executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/program/bindings.h"

namespace lathe::cuda {
namespace {

constexpr size_t kPieceAlignment = 16, kOwnAlignment = 256;
/// Inputs up to this size are read from pinned memory by the kernel that spreads them: the copy engine would
/// take longer to begin.
constexpr size_t kReadInPlace = size_t{256} << 10;

size_t aligned(size_t bytes, size_t alignment = kPieceAlignment) { return round_up(bytes, alignment); }

}  // namespace

InUse in_use(int node, const Program&, const Selection& selection) {
  const auto entry = [&](int n) -> const Entry& {
    return static_cast<const CudaImpl*>(selection[static_cast<size_t>(n)])->entry;
  };
  const Entry& late = entry(node);
  const int end = static_cast<int>(selection.size());
  const bool whole = late.own_queue || late.late == Late::kNode;
  InUse use{node, end, whole, whole ? ~0u : late.late_outputs};
  if (late.own_queue) return use;
  int of_kind = 0;  // after it
  for (int next = node + 1; next < end && use.last == end; ++next)
    if (entry(next).late_outputs != 0 && entry(next).late == late.late && ++of_kind == 2) use.last = next - 1;
  return use;
}

CudaExecutable::CudaExecutable(Device& device, const Program& program, const Selection& selection,
                               const MemoryPlan& plan, const Bindings& bindings)
    : device_(device), bindings_(bindings), input_sizes_(input_bytes(program)) {
  const auto address = [&](int id) { return address_of(id, program, plan, bindings); };
  for (size_t id = 0; id < program.values().size(); ++id)
    if (program.values()[id].kind == ValueKind::kInput)
      inputs_.push_back({address(static_cast<int>(id)), bytes_of(program.values()[id].type)});
  for (size_t o = 0; o < program.outputs().size(); ++o) {
    const int id = program.outputs()[o].second;
    outputs_.push_back({address(id), bytes_of(program.type(id)), !program.is_of_last_run(o)});
  }
  lay_out_ring();
  const std::vector<bool> read = program.read();
  std::vector<size_t> own;  // where each node's own memory begins
  size_t own_bytes = 0;
  for (size_t n = 0; n < selection.size(); ++n) {
    const Entry& entry = static_cast<const CudaImpl*>(selection[n])->entry;
    own.push_back(own_bytes);
    if (entry.own_bytes != nullptr)
      own_bytes += aligned(entry.own_bytes(program.nodes()[n], program), kOwnAlignment);
  }
  if (own_bytes > 0) own_ = allocate(own_bytes, Memory::kDevice, device_.compute).value();
  for (size_t n = 0; n < selection.size(); ++n) {
    const auto* impl = static_cast<const CudaImpl*>(selection[n]);
    if (impl->entry.launch == nullptr) continue;  // a view
    const Node& node = program.nodes()[n];
    Call call{device.compute,
              node,
              program,
              {},
              {},
              bindings.arena.data + plan.workspaces[n],
              own_.data + own[n],
              device.sides[static_cast<size_t>(impl->entry.late)],
              fork_,
              device.products};
    for (int id : node.in) call.in.push_back(address(id));
    for (int id : node.out) call.out.push_back(address(id));
    call.out_is_read = node.out.empty() || read[static_cast<size_t>(node.out[0])];
    call.nccl = device.nccl;
    use_rounded(call, plan);
    steps_.push_back({impl, static_cast<int>(n), std::move(call)});
  }
  for (const Step& step : steps_)
    if (step.impl->entry.prepare != nullptr) step.impl->entry.prepare(step.call);
  graph_ = capture(false);
}

CudaExecutable::~CudaExecutable() {
  const Exclusive turn(device_);
  cudaStreamSynchronize(device_.compute);
}

/// Places of inputs and outputs in the pieces that cross, and the memory of all runs in flight.
void CudaExecutable::lay_out_ring() {
  const auto place = [](std::vector<Crossing>& all) {
    size_t end = 0;
    for (Crossing& c : all)
      if (c.crosses) c.offset = end, end += aligned(c.bytes);
    return end;
  };
  const size_t in = place(inputs_), out = place(outputs_);
  input_bytes_ = in;
  for (const Crossing& input : inputs_) {
    if (scatters_.empty() || scatters_.back().count == Scatter::kMost) scatters_.emplace_back();
    Scatter& scatter = scatters_.back();
    scatter.parts[scatter.count++] = {input.device, static_cast<uint32_t>(input.offset),
                                      static_cast<uint32_t>(input.bytes)};
  }
  if (in + out > 0) pinned_ = allocate((in + out) * kRing, Memory::kPinned, device_.compute).value();
  if (in > kReadInPlace) staged_ = allocate(in * kRing, Memory::kDevice, device_.compute).value();
  for (size_t k = 0; k < kRing; ++k) {
    ring_[k].inputs = pinned_.data + k * (in + out);
    ring_[k].outputs = ring_[k].inputs + in;
    if (in > kReadInPlace) ring_[k].staged = staged_.data + k * in;
  }
}

/// Gives a node the rounded copies that it reads or writes, and records their states.
void CudaExecutable::use_rounded(Call& call, const MemoryPlan& plan) {
  const Program& program = call.program;
  const auto rounded = [&](int state) {
    return device_.rounded.of(bindings_.states.at(program.values()[static_cast<size_t>(state)].name));
  };
  const auto remember = [](auto& list, auto state) {
    if (std::find(list.begin(), list.end(), state) == list.end()) list.push_back(std::move(state));
  };
  const RoundedInputs reads = rounded_inputs(call.node, program);
  for (auto [value, target] : {std::pair{reads.weight, &call.weight}, std::pair{reads.bias, &call.bias}}) {
    const auto place = value < 0 ? std::nullopt : state_of(program, value);
    if (!place) continue;
    const auto state = rounded(place->state);
    *target =
        state->copy(reads.type, device_.compute) + static_cast<size_t>(place->offset) * size_of(reads.type);
    remember(read_, state);
  }
  for (const InPlace& update : call.node.op->in_place) {
    const MemoryPlan::Place& place =
        plan.places[static_cast<size_t>(call.node.in[static_cast<size_t>(update.in)])];
    if (place.state < 0) continue;
    const bool rounds = call.node.op == &op::adamw || call.node.op == &op::all_gather;
    if (!rounds || update.in != 0) {
      remember(written_, rounded(place.state));
      continue;
    }
    const RoundedState::Written copy = rounded(place.state)->written_by_adamw();
    if (copy.data != nullptr) call.rounded = copy.data + place.offset / sizeof(float) * size_of(copy.type);
    call.rounded_type = copy.type;
    updated_.emplace_back(rounded(place.state), copy);
  }
}

std::unique_ptr<Graph> CudaExecutable::capture(bool timed) {
  const cudaStream_t stream = device_.compute;
  const auto mark = [&](size_t i) {
    if (timed) check(cudaEventRecordWithFlags(*marks_[i], stream, cudaEventRecordExternal), "capturing");
  };
  const auto launches = [&] {
    bool begun = timed;
    for (size_t i = 0; i < steps_.size(); ++i) {
      mark(i);
      Call call = steps_[i].call;
      const CudaImpl& impl = *steps_[i].impl;
      if (timed) call.side = nullptr;  // one after another
      if (timed && impl.entry.begin != nullptr) impl.entry.begin(call);
      if (!begun && (impl.entry.late_outputs != 0 || impl.entry.begin != nullptr)) begin(), begun = true;
      launch(i, call);
    }
    for (size_t kind = 0; kind < kLateKinds; ++kind) join_late(kind, late_[kind].size());
    join_messages(messages_.size());
    mark(steps_.size());
  };
  return std::make_unique<Graph>(stream, launches, Region{own_.data, own_.bytes});
}

/// Launches, next to all that follows, what later nodes can do before their turn.
void CudaExecutable::begin() {
  const cudaStream_t side = device_.sides[static_cast<size_t>(Late::kEnd)];
  begun_.clear();
  begun_.resize(steps_.size());
  bool forked = false;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Entry& entry = steps_[i].impl->entry;
    if (entry.begin == nullptr) continue;
    Call call = steps_[i].call;
    if (!std::exchange(forked, true)) (void)call.fork_to(side);
    call.stream = side;
    entry.begin(call);
    check(cudaGetLastError(), call.node.op->name);
    begun_[i] = std::make_unique<Mark>();
    check(cudaEventRecord(*begun_[i], side), "capturing");
  }
}

void CudaExecutable::launch(size_t step, const Call& call) {
  const CudaImpl& impl = *steps_[step].impl;
  if (impl.entry.own_queue && call.side != nullptr) return launch_message(impl, call);
  if (step < begun_.size() && begun_[step] != nullptr && call.side != nullptr)
    check(cudaStreamWaitEvent(device_.compute, *begun_[step]), "capturing");
  join_messages(call);
  join_late(call);
  const bool is_late = impl.entry.late_outputs != 0 && call.side != nullptr;
  const auto kind = static_cast<size_t>(impl.entry.late);
  if (is_late && late_[kind].size() > 1) join_late(kind, 1);
  impl.entry.launch(call);
  check(cudaGetLastError(), call.node.op->name);
  if (!is_late) return;
  const bool second = !late_[kind].empty() && late_[kind].back().done == late_done_[kind][0];
  LateNode node{{}, late_done_[kind][second ? 1 : 0]};
  check(cudaEventRecord(node.done, call.side), "capturing");
  for (size_t o = 0; o < call.node.out.size(); ++o)
    if ((impl.entry.late_outputs >> o & 1) != 0)
      node.outputs.push_back({call.out[o], bytes_of(call.out_type(static_cast<int>(o)))});
  late_[kind].push_back(std::move(node));
}

/// A node with own_queue begins after the nodes whose results it reads, late outputs included.  Only nodes
/// that read its results wait for it.
void CudaExecutable::launch_message(const CudaImpl& impl, Call call) {
  check(cudaEventRecord(fork_, device_.compute), "capturing");
  check(cudaStreamWaitEvent(device_.messages, fork_), "capturing");
  for (const auto& late : late_)
    for (const LateNode& node : late)
      if (reads(call, node.outputs)) check(cudaStreamWaitEvent(device_.messages, node.done), "capturing");
  call.stream = device_.messages;
  impl.entry.launch(call);
  check(cudaGetLastError(), call.node.op->name);
  Message message{{}, std::make_unique<Mark>()};
  check(cudaEventRecord(*message.done, device_.messages), "capturing");
  for (size_t o = 0; o < call.node.out.size(); ++o)
    message.outputs.push_back({call.out[o], bytes_of(call.out_type(static_cast<int>(o)))});
  messages_.push_back(std::move(message));
}

/// Waits on the device for the first `messages` nodes with own_queue.
void CudaExecutable::join_messages(size_t messages) {
  if (messages == 0) return;
  check(cudaStreamWaitEvent(device_.compute, *messages_[messages - 1].done), "capturing");
  messages_.erase(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(messages));
}

/// Waits on the device for the nodes with own_queue that write what `reader` reads, and those before them.
void CudaExecutable::join_messages(const Call& reader) {
  size_t messages = messages_.size();
  while (messages > 0 && !reads(reader, messages_[messages - 1].outputs)) --messages;
  join_messages(messages);
}

/// Waits on the device for the first `nodes` nodes that are late in this way.
void CudaExecutable::join_late(size_t kind, size_t nodes) {
  std::vector<LateNode>& late = late_[kind];
  if (nodes == 0) return;
  check(cudaStreamWaitEvent(device_.compute, late[nodes - 1].done), "capturing");
  late.erase(late.begin(), late.begin() + static_cast<std::ptrdiff_t>(nodes));
}

/// Waits on the device for late nodes that write what `reader` reads, and those before them.
void CudaExecutable::join_late(const Call& reader) {
  for (size_t kind = 0; kind < kLateKinds; ++kind)
    for (size_t nodes = late_[kind].size(); nodes > 0; --nodes)
      if (reads(reader, late_[kind][nodes - 1].outputs)) {
        join_late(kind, nodes);
        break;
      }
}

bool CudaExecutable::reads(const Call& reader, const std::vector<Piece>& pieces) {
  for (size_t input = 0; input < reader.in.size(); ++input) {
    const std::byte* begin = reader.in[input];
    if (begin == nullptr) continue;
    const std::byte* end = begin + bytes_of(reader.in_type(static_cast<int>(input)));
    if (std::any_of(pieces.begin(), pieces.end(),
                    [&](const Piece& p) { return begin < p.data + p.bytes && p.data < end; }))
      return true;
  }
  return false;
}

Status CudaExecutable::run(const Slot& slot, Event* event) {
  if (Status status = check_inputs(slot, input_sizes_); !status.ok()) return status;
  InFlight& flight = ring_[++ticket_ % kRing];
  flight.ticket = ticket_;
  try {
    check(cudaEventSynchronize(flight.done), "a run");
    for (size_t i = 0; i < inputs_.size(); ++i)
      std::memcpy(flight.inputs + inputs_[i].offset, slot.inputs[i].data(), inputs_[i].bytes);
    launch(flight);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  *event = {ticket_};
  return {};
}

/// Copies inputs in, runs the graph, copies outputs out: all in order on the device; the host does not wait.
void CudaExecutable::launch(InFlight& flight) {
  const Exclusive turn(device_);
  const cudaStream_t compute = device_.compute, copies = device_.copies;
  const bool by_engine = input_bytes_ > kReadInPlace;
  if (by_engine) {
    check(cudaMemcpyAsync(flight.staged, flight.inputs, input_bytes_, cudaMemcpyHostToDevice, copies),
          "copying inputs");
    check(cudaEventRecord(flight.copied, copies), "copying inputs");
    check(cudaStreamWaitEvent(compute, flight.copied), "copying inputs");
  }
  for (const auto& state : read_) state->refresh(compute);
  for (const Scatter& parts : scatters_) scatter(compute, parts, by_engine ? flight.staged : flight.inputs);
  check(cudaGraphLaunch(profile_ ? *timed_graph_ : *graph_, compute), "launching a graph");
  for (const auto& state : written_) state->changed();
  for (const auto& [state, copy] : updated_) state->updated(copy);
  for (const Crossing& output : outputs_)
    if (output.crosses)
      check(cudaMemcpyAsync(flight.outputs + output.offset, output.device, output.bytes,
                            cudaMemcpyDeviceToHost, compute),
            "copying outputs");
  check(cudaEventRecord(flight.done, compute), "a run");
}

Status CudaExecutable::wait(Event event) {
  const InFlight& flight = ring_[event.ticket % kRing];
  return status_of(cudaEventSynchronize(flight.done), "a run");
}

Status CudaExecutable::read(Event event, size_t index, std::span<std::byte> destination) {
  const InFlight& flight = ring_[event.ticket % kRing];
  const Crossing& output = outputs_.at(index);
  if (output.bytes != destination.size() || flight.ticket != event.ticket ||
      (!output.crosses && event.ticket != ticket_))
    return {ErrorCode::kInternal,
            fmt::format("output {} of run {}: {} bytes, asked for {}; last run {}", index, event.ticket,
                        output.bytes, destination.size(), ticket_)};
  if (!output.crosses) return copy_out(destination, output);
  Status done = wait(event);
  if (done.ok()) std::memcpy(destination.data(), flight.outputs + output.offset, output.bytes);
  return done;
}

Status CudaExecutable::copy_out(std::span<std::byte> to, const Crossing& output) {
  const Exclusive turn(device_);
  const cudaError_t started =
      cudaMemcpyAsync(to.data(), output.device, output.bytes, cudaMemcpyDeviceToHost, device_.compute);
  return status_of(started == cudaSuccess ? cudaStreamSynchronize(device_.compute) : started,
                   "copying outputs");
}

void CudaExecutable::profile(bool on) {
  const Exclusive turn(device_);
  if (on && timed_graph_ == nullptr) {
    for (size_t i = 0; i <= steps_.size(); ++i) marks_.push_back(std::make_unique<Mark>(true));
    timed_graph_ = capture(true);
  }
  profile_ = on;
}

std::vector<Span> CudaExecutable::timeline() const {
  const Exclusive turn(device_);
  std::vector<Span> spans;
  if (!profile_ || cudaStreamSynchronize(device_.compute) != cudaSuccess) return spans;
  int64_t at = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    float ms = 0;
    if (!status_of(cudaEventElapsedTime(&ms, *marks_[i], *marks_[i + 1]), "timing").ok()) return {};
    const int64_t end = at + static_cast<int64_t>(static_cast<double>(ms) * 1e6);
    spans.push_back({steps_[i].node, at, end});
    at = end;
  }
  return spans;
}

}  // namespace lathe::cuda
