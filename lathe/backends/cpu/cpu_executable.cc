#include "lathe/backends/cpu/cpu_executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "lathe/backends/cpu/call_memory.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/program/bindings.h"
#include "lathe/program/row_gaps.h"

namespace lathe::cpu {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A fixed list of calls with fixed addresses.
class CpuExecutable : public Executable {
 public:
  CpuExecutable(const Program& program, const Selection& selection, const MemoryPlan& plan,
                const Bindings& bindings, const Shared& shared)
      : shared_(shared), bindings_(bindings), input_bytes_(input_bytes(program)) {
    const auto parameters = [&](int state) {
      const ValueInfo& value = program.values()[static_cast<size_t>(state)];
      return shared.packed.of(bindings.states.at(value.name), value.type.dtype);
    };
    const auto address = [&](int id) { return address_of(id, program, plan, bindings); };
    for (size_t id = 0; id < program.values().size(); ++id)
      if (program.values()[id].kind == ValueKind::kInput) inputs_.push_back(address(static_cast<int>(id)));
    for (size_t o = 0; o < program.outputs().size(); ++o) {
      const int id = program.outputs()[o].second;
      outputs_.push_back({address(id), bytes_of(program.type(id)), program.is_of_last_run(o)});
      for (auto& ring : ring_) ring.emplace_back(outputs_[o].of_last_run ? 0 : outputs_[o].bytes);
    }
    const std::vector<bool> read = program.read();
    for (size_t n = 0; n < selection.size(); ++n) {
      const auto* impl = static_cast<const CpuImpl*>(selection[n]);
      if (impl->run == nullptr) continue;  // a view
      const Node& node = program.nodes()[n];
      Call call = call_of(*impl, node, program, shared.pool, shared.group);
      call.workspace = bindings.arena.data + plan.workspaces[n];
      const auto ld = [&](int id) { return id < 0 ? 0 : plan.places[static_cast<size_t>(id)].ld; };
      for (int id : node.in) call.in.push_back(address(id)), call.in_ld.push_back(ld(id));
      for (int id : node.out) call.out.push_back(address(id)), call.out_ld.push_back(ld(id));
      call.out_is_read = read[static_cast<size_t>(node.out[0])];
      if (const auto use = packed_use(node, program, impl->isa)) {
        const auto state = parameters(use->state);
        call.packed_weight = state->copy(*use, impl->isa);
        auto& packed_read = use->product == PackedFor::kInt8 ? read_int8_ : read_;
        if (std::find(packed_read.begin(), packed_read.end(), state) == packed_read.end())
          packed_read.push_back(state);
      }
      const auto state_of = [&](int value) { return plan.places[static_cast<size_t>(value)].state; };
      if (keeps_packed(*node.op)) {
        const MemoryPlan::Place& place = plan.places[static_cast<size_t>(node.in[0])];
        call.parameters =
            place.state >= 0 ? parameters(place.state) : std::make_shared<PackedState>(call.output<float>(0));
        if (place.state >= 0) call.origin = static_cast<int64_t>(place.offset / sizeof(float));
      } else {
        for (const InPlace& update : node.op->in_place)
          if (const int state = state_of(node.in[static_cast<size_t>(update.in)]); state >= 0)
            written_.push_back(parameters(state));
      }
      calls_.push_back({impl, static_cast<int>(n), std::move(call)});
    }
    find_cold();
    find_pairs();
    find_table(program);
    spans_.resize(calls_.size());
  }

  Status run(const Slot& slot, Event* event) override {
    const std::lock_guard lock(shared_.running);
    if (Status status = check_inputs(slot, input_bytes_); !status.ok()) return status;
    for (size_t i = 0; i < inputs_.size(); ++i)
      std::memcpy(inputs_[i], slot.inputs[i].data(), input_bytes_[i]);
    for (const auto& state : read_) state->refresh(shared_.pool);
    for (const auto& state : read_int8_) state->refresh_int8(shared_.pool);
    try {
      run_calls();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    for (const auto& state : written_) state->changed();
    auto& ring = ring_[++ticket_ % kRing];
    for (size_t o = 0; o < outputs_.size(); ++o)
      if (!outputs_[o].of_last_run) std::memcpy(ring[o].data(), outputs_[o].data, outputs_[o].bytes);
    *event = {ticket_};
    return {};
  }

  Status wait(Event) override { return {}; }  // run returns when all is done

  Status read(Event event, size_t index, std::span<std::byte> destination) override {
    const Output& output = outputs_.at(index);
    if (output.bytes != destination.size() || event.ticket + (output.of_last_run ? 1 : kRing) <= ticket_)
      return {ErrorCode::kInternal,
              fmt::format("output {} of run {}: {} bytes, asked for {}; last run {}", index, event.ticket,
                          output.bytes, destination.size(), ticket_)};
    const std::byte* kept = ring_[event.ticket % kRing][index].data();
    std::memcpy(destination.data(), output.of_last_run ? output.data : kept, output.bytes);
    return {};
  }

  void profile(bool on) override { profile_ = on; }
  std::vector<Span> timeline() const override { return profile_ ? spans_ : std::vector<Span>{}; }

 private:
  void find_cold() {
    std::vector<Touched> touched;
    for (const Step& step : calls_) touched.push_back(touched_by(step.call));
    for (size_t i = 0; i < calls_.size(); ++i) {
      Call& c = calls_[i].call;
      if (!c.out.empty() && c.out[0] != nullptr)
        c.out_is_cold = is_cold(touched, i, {c.out[0], placed_bytes(c.out_type(0), c.out_ld[0])});
    }
  }

  static Touched touched_by(const Call& c) {
    Touched memory = inputs_of(c);
    for (const auto& out : outputs_of(c)) memory.push_back(out);
    return memory;
  }
  static Touched inputs_of(const Call& c) { return memory_of(c.program, c.node.in, c.in, c.in_ld); }
  static Touched outputs_of(const Call& c) { return memory_of(c.program, c.node.out, c.out, c.out_ld); }
  static Touched memory_of(const Program& program, const std::vector<int>& ids,
                           const std::vector<std::byte*>& data, const std::vector<int64_t>& ld) {
    Touched memory;
    for (size_t i = 0; i < data.size(); ++i)
      if (data[i] != nullptr) memory.push_back({data[i], placed_bytes(program.type(ids[i]), ld[i])});
    return memory;
  }

  /// Calls that may run together with the next one: neither writes what the other one touches.  That holds
  /// where results and workspaces have memory apart (Entry::apart).
  void find_pairs() {
    const auto written = [](const Step& step) {
      Touched memory = outputs_of(step.call);
      if (step.impl->workspace_bytes)
        memory.push_back(
            {step.call.workspace, step.impl->workspace_bytes(step.call.node, step.call.program)});
      return memory;
    };
    for (size_t c = 0; c + 1 < calls_.size(); ++c) {
      Step &step = calls_[c], &next = calls_[c + 1];
      const WithNext* with_next = step.impl->with_next;
      const bool same_kind = step.impl->isa == next.impl->isa && next.impl->blas == nullptr;
      if (with_next == nullptr || !same_kind || !with_next->takes(step.call.node, next.call.node)) continue;
      const Touched mine = written(step), others = written(next);
      step.runs_next =
          !meet(mine, others) && !meet(mine, inputs_of(next.call)) && !meet(others, inputs_of(step.call));
    }
  }

  /// The zero rows of a table's gradient need not be written or read.
  void find_table(const Program& program) {
    const TableGradient gradient = find_table_gradient(program);
    if (gradient.scatter < 0) return;
    const Shape& shape = program.type(program.nodes()[static_cast<size_t>(gradient.scatter)].out[0]).shape;
    const auto table = std::make_shared<WrittenRows>();
    *table = {gradient.begin, shape[1], std::vector<uint8_t>(static_cast<size_t>(shape[0]))};
    std::vector<Touched> others;
    std::span<const std::byte> memory;
    for (Step& step : calls_) {
      const auto& readers = gradient.readers;
      const bool writes = step.node == gradient.scatter;
      if (writes || std::find(readers.begin(), readers.end(), step.node) != readers.end())
        step.call.table = table;
      else
        others.push_back(touched_by(step.call));
      if (writes) memory = {step.call.out[0], table->bytes()};
    }
    if (!table->is_sparse()) return;
    // If other results also use this memory, products may read them.
    for (const auto& part : untouched(others, memory))
      prefer_small_pages(const_cast<std::byte*>(part.data()), part.size());
  }

  void run_calls() {
    for (size_t c = 0; c < calls_.size(); ++c) {
      const Step& step = calls_[c];
      if (profile_) {  // one at a time, so that each has a time of its own
        spans_[c] = {step.node, now_ns(), 0};
        step.impl->run(step.call);
        spans_[c].end_ns = now_ns();
      } else if (step.runs_next) {
        step.impl->with_next->run(step.call, calls_[++c].call);
      } else {
        step.impl->run(step.call);
      }
    }
  }

  struct Step {
    const CpuImpl* impl;
    int node;
    Call call;
    bool runs_next = false;  ///< together with it
  };
  const Shared shared_;
  Bindings bindings_;  // keeps the memory alive
  // Whose packed weights this program reads, and what it changes by ops that do not
  // keep them fresh.
  std::vector<std::shared_ptr<PackedState>> read_, read_int8_, written_;
  struct Output {
    const std::byte* data;
    size_t bytes;
    bool of_last_run;
  };
  std::vector<std::byte*> inputs_;
  std::vector<size_t> input_bytes_;
  std::vector<Output> outputs_;
  std::vector<std::vector<std::byte>> ring_[kRing];
  std::vector<Step> calls_;
  std::vector<Span> spans_;
  uint64_t ticket_ = 0;
  bool profile_ = false;
};

}  // namespace

std::unique_ptr<Executable> make_executable(const Program& program, const Selection& selection,
                                            const MemoryPlan& plan, const Bindings& bindings,
                                            const Shared& shared) {
  return std::make_unique<CpuExecutable>(program, selection, plan, bindings, shared);
}

Call call_of(const CpuImpl& impl, const Node& node, const Program& program, ThreadPool& pool,
             ProcessGroup* group) {
  Call call{pool, impl.isa, node, program, {}, {}, nullptr};
  call.blas = impl.blas;
  call.workspace_is_cold = impl.apart;
  call.group = group;
  return call;
}

bool keeps_packed(const OpDef& op) { return &op == &op::adamw || &op == &op::all_gather; }

}  // namespace lathe::cpu
