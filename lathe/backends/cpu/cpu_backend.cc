#include "lathe/backends/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "lathe/backends/cpu/call_memory.h"
#include "lathe/backends/cpu/cpu_executable.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/environment.h"
#include "lathe/core/host_memory.h"
#include "lathe/program/bindings.h"
#include "lathe/program/memory_plan.h"

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
    for (auto entries : {elementwise_entries(), product_entries(), row_entries(), pooling_entries(),
                         similarity_entries(), attention_entries(), loss_entries(),
                         linear_cross_entropy_entries(), flat_entries(), optimizer_entries()})
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
                    fmt::format("out of memory: {} bytes needed; give this process more, or take a smaller "
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
      return make_executable(program, selection, plan, bindings, {running_, pool_, packed_, group_.get()});
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
