#include "lathe/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "lathe/backends/cpu/call_memory.h"
#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/environment.h"
#include "lathe/core/host_memory.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/program/bindings.h"
#include "lathe/program/row_gaps.h"

namespace lathe::cpu {
namespace {

constexpr size_t kAlignment = 64;
// Sixteen rows, an AMX tile, that are a multiple of 512 bytes apart fall on at most eight of the 64 sets of a
// first-level cache (docs/performance.md).
constexpr RowGap kRowGap{.every = 512, .bytes = kAlignment};
constexpr size_t kPiece = size_t{1} << 20;         // of a copy
constexpr size_t kWorthAsking = size_t{64} << 20;  // smaller blocks: not worth asking the system
// A line that three other cores have read costs the next one that writes it some 50 ns, until this much other
// memory has gone through the caches (docs/performance.md).
constexpr int kSharers = 4;
constexpr size_t kApart = 400'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Ops that change a state and keep its packed copies fresh.
bool keeps_packed(const OpDef& op) { return &op == &op::adamw || &op == &op::all_gather; }

/// Its memory is not set yet.
Call call_of(const CpuImpl& impl, const Node& node, const Program& program, ThreadPool& pool,
             ProcessGroup* group) {
  Call call{pool, impl.isa, node, program, {}, {}, nullptr};
  call.blas = impl.blas;
  call.workspace_is_cold = impl.apart;
  call.group = group;
  return call;
}

/// A fixed list of calls with fixed addresses.
class CpuExecutable : public Executable {
 public:
  CpuExecutable(const Program& program, const Selection& selection, const MemoryPlan& plan,
                const Bindings& bindings, std::mutex& running, ThreadPool& pool, PackedWeights& packed,
                ProcessGroup* group)
      : running_(running), pool_(pool), bindings_(bindings), input_bytes_(input_bytes(program)) {
    const auto parameters = [&](int state) {
      return packed.of(bindings.states.at(program.values()[static_cast<size_t>(state)].name));
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
      Call call = call_of(*impl, node, program, pool, group);
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
    const std::lock_guard lock(running_);
    if (Status status = check_inputs(slot, input_bytes_); !status.ok()) return status;
    for (size_t i = 0; i < inputs_.size(); ++i)
      std::memcpy(inputs_[i], slot.inputs[i].data(), input_bytes_[i]);
    for (const auto& state : read_) state->refresh(pool_);
    for (const auto& state : read_int8_) state->refresh_int8(pool_);
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
  std::mutex& running_;  // the backend's
  ThreadPool& pool_;
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

class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, std::shared_ptr<ProcessGroup> group)
      : group_(std::move(group)),
        pool_(threads),
        blas_(environment("LATHE_BLAS"), system_blas(), cache_path("cpu_products.txt"), pool_, chosen_isa()) {
    info_.kind = "cpu";
    info_.token_rounding = {2, 32};  // products of few tokens take as long as they have rows
    name_products();
    info_.memory_bytes = host_memory().total.value_or(0);
    info_.host_memory = true;
    info_.alignment = kAlignment;
    if (blas_.known() != nullptr)
      for (const Entry& entry : blas_entries()) add_blas(entry);
    for (auto entries : {elementwise_entries(), product_entries(), row_entries(), attention_entries(),
                         loss_entries(), flat_entries(), optimizer_entries()})
      for (const Entry& entry : entries) add(entry);
  }

  const DeviceInfo& info() const override { return info_; }
  ProcessGroup* group() const override { return group_.get(); }

  Result<Buffer> allocate(size_t bytes) override {
    // The system gives pages at the first touch, so a lack of memory would show only then.
    const bool large = bytes >= kWorthAsking;
    const bool enough = !large || bytes <= free_bytes().value_or(bytes);
    std::shared_ptr<std::byte> data = enough ? allocate_zeroed(bytes) : nullptr;
    if (data == nullptr)
      return Status(ErrorCode::kMemory,
                    fmt::format("out of memory: {} bytes wanted; give this process more, or take a smaller "
                                "batch or model",
                                bytes));
    return Buffer{data, data.get(), bytes};
  }

  std::optional<size_t> free_bytes() const override { return host_memory().reachable; }

  size_t prepared_bytes(const Program& program, const Selection& selection,
                        const Bindings& bindings) const override {
    const std::lock_guard lock(running_);
    std::set<std::pair<PackedUse, Isa>> counted;
    size_t bytes = 0;
    for (size_t n = 0; n < selection.size(); ++n) {
      const Isa isa = static_cast<const CpuImpl*>(selection[n])->isa;
      const auto use = packed_use(program.nodes()[n], program, isa);
      if (!use || !counted.emplace(*use, isa).second) continue;
      const auto state = bindings.states.find(program.values()[static_cast<size_t>(use->state)].name);
      if (state == bindings.states.end() || !packed_.has(state->second, *use, isa))
        bytes += packed_bytes(*use, isa);
    }
    return bytes;
  }

  MemoryPlan plan(const Program& program, const Selection& selection) const override {
    return plan_memory(program, selection, kAlignment, kRowGap);
  }

  Status copy_in(const Buffer& to, size_t offset, std::span<const std::byte> from) override {
    if (offset + from.size() > to.bytes) return {ErrorCode::kInternal, "copy_in: out of the buffer"};
    // By all threads: the pages of large buffers come into being here.
    const long pieces = static_cast<long>(ceil_div(from.size(), kPiece));
    auto copy = [&](int part, int parts) {
      const Share mine = share(pieces, part, parts);
      const size_t begin = static_cast<size_t>(mine.begin) * kPiece;
      const size_t end = std::min(from.size(), static_cast<size_t>(mine.end) * kPiece);
      if (begin < end) std::memcpy(to.data + offset + begin, from.data() + begin, end - begin);
    };
    const std::lock_guard lock(running_);
    if (pieces > 1)
      pool_.run(copy);
    else
      copy(0, 1);
    packed_.changed(to);
    return {};
  }

  Status copy_out(std::span<std::byte> to, const Buffer& from, size_t offset) override {
    if (offset + to.size() > from.bytes) return {ErrorCode::kInternal, "copy_out: out of the buffer"};
    const std::lock_guard lock(running_);
    std::memcpy(to.data(), from.data + offset, to.size());
    return {};
  }

  std::vector<const Impl*> implementations(const OpDef& op) const override {
    std::vector<const Impl*> list;
    const auto it = table_.find(&op);
    if (it != table_.end())
      for (const CpuImpl& impl : it->second) list.push_back(&impl);
    return list;
  }

  std::string tuning() const override {
    const std::lock_guard lock(running_);
    return blas_.tuning();
  }
  void adopt_tuning(const std::string& text) override {
    const std::lock_guard lock(running_);
    blas_.adopt(text);
    name_products();
  }

  Status run_node(const Program& program, const Node& node, const Impl& impl, std::span<std::byte* const> in,
                  std::span<std::byte* const> out, std::byte* workspace) override {
    const auto& mine = static_cast<const CpuImpl&>(impl);
    if (mine.run == nullptr) return {ErrorCode::kUnsupported, "a view of memory runs nothing"};
    Call call = call_of(mine, node, program, pool_, group_.get());
    call.in.assign(in.begin(), in.end());
    call.out.assign(out.begin(), out.end());
    call.workspace = workspace;
    if (keeps_packed(*node.op)) call.parameters = std::make_shared<PackedState>(call.output<float>(0));
    const std::lock_guard lock(running_);
    try {
      mine.run(call);
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {};
  }

  Result<std::unique_ptr<Executable>> compile(const Program& program, const Selection& selection,
                                              const MemoryPlan& plan, const Bindings& bindings) override {
    if (Status status = check_bindings(program, plan, bindings); !status.ok()) return status;
    const std::lock_guard lock(running_);
    try {
      return std::unique_ptr<Executable>(std::make_unique<CpuExecutable>(
          program, selection, plan, bindings, running_, pool_, packed_, group_.get()));
    } catch (const Error& error) {
      return Status(error.code(), error.what());
    }
  }

 private:
  void name_products() {
    info_.name = fmt::format("{}, {} thread{}", describe(), pool_.size(), pool_.size() == 1 ? "" : "s");
    if (blas_.used() != nullptr) info_.name += ", products of fp32 by " + blas_.used()->name;
  }

  /// One implementation per level up to the chosen one, best first: all of them are tested, but the first is
  /// used.
  void add(const Entry& entry) {
    std::vector<Isa> levels = available_isas();
    const Isa best = chosen_isa();
    while (levels.back() != best) levels.pop_back();
    for (size_t i = levels.size(); i-- > 0;)
      table_[entry.op].push_back(implementation(entry, levels[i], std::string(name_of(levels[i]))));
  }

  /// Before the others, where the library is used.
  void add_blas(const Entry& entry) {
    CpuImpl impl = implementation(entry, chosen_isa(), "blas");
    impl.blas = blas_.known();
    impl.accepts = [this, accepts = entry.accepts](const Node& node, const Program& program) {
      return blas_.used() != nullptr && accepts(node, program);
    };
    table_[entry.op].push_back(std::move(impl));
  }

  CpuImpl implementation(const Entry& entry, Isa isa, std::string name) const {
    CpuImpl impl;
    impl.name = std::move(name);
    impl.isa = isa;
    impl.run = entry.run;
    impl.may_overwrite = entry.may_overwrite;
    impl.apart = entry.apart && pool_.size() >= kSharers;
    if (impl.apart)
      impl.in_use = [](int node, const Program& program, const Selection&) {
        return InUse{untouched_since(node, program, kApart), node};
      };
    impl.gaps_in = entry.gaps_in;
    impl.gaps_out = entry.gaps_out;
    impl.with_next = entry.with_next;
    if (entry.accepts != nullptr) impl.accepts = entry.accepts;
    if (entry.workspace_bytes != nullptr)
      impl.workspace_bytes = [f = entry.workspace_bytes, isa, threads = pool_.size()](
                                 const Node& node, const Program& program) {
        return f(node, program, isa, threads);
      };
    return impl;
  }

  /// Held by every thread that runs, copies or compiles: only one at a time uses the pool and the packed
  /// weights.
  mutable std::mutex running_;
  std::shared_ptr<ProcessGroup> group_;
  ThreadPool pool_;
  BlasChoice blas_;
  PackedWeights packed_;
  DeviceInfo info_;
  std::map<const OpDef*, Implementations> table_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads, std::shared_ptr<ProcessGroup> group) {
  return std::make_unique<CpuBackend>(threads, std::move(group));
}

std::string describe() {
  std::string model = "CPU";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return fmt::format("{}, {}", model, name_of(chosen_isa()));
}

}  // namespace lathe::cpu
