// The session's programs: planned, given memory, compiled and kept.
#include <algorithm>
#include <set>

#include "lathe/engine/ranks.h"
#include "lathe/engine/session.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/ops.h"
#include "lathe/program/fuse.h"
#include "lathe/program/hoist.h"

namespace lathe {
namespace {

/// What runs before the last gave, and can still be read: where a device manages memory itself, it lies
/// there.
uint64_t bytes_of_earlier_runs(const Program& program) {
  uint64_t bytes = 0;
  for (size_t o = 0; o < program.outputs().size(); ++o)
    if (!program.is_of_last_run(o)) bytes += bytes_of(program.type(program.outputs()[o].second));
  return (Executable::kRing - 1) * bytes;
}

}  // namespace

Session::Planned Session::planned(const Work& work, int64_t recompute_every) const {
  if (nn::flat_layout(model_.parameters()) != layout_)
    fail(ErrorCode::kUsage,
         "parameters of the model were frozen or thawed since this trainer was made, as another one with "
         "--freeze_base_model does; give each a model of its own");
  ProgramOptions options = options_.program;
  options.targets = work.targets;
  options.base_given = work.base_given;
  if (work.kind == ProgramKind::kEvaluate) options.quantization = work.quantization;
  options.dtype = work.dtype.value_or(options.dtype);
  options.recompute_every = recompute_every;
  options.longest_row = longest_row(work.kind);
  Planned plan;
  plan.program = build_program(model_, work.kind, work.bucket, options_.num_labels, options);
  fuse(*plan.program, backend_, fusions());
  if (options.ranks > 1) {
    hoist(*plan.program, op::all_reduce);
    hoist(*plan.program, op::gather_ranks);
  }
  plan.selection = select(*plan.program, backend_);
  plan.memory =
      plan_memory(*plan.program, plan.selection, backend_.info().alignment, backend_.info().row_gap);
  return plan;
}

std::vector<Session::Planned> Session::planned(std::span<const Work> work) const {
  std::vector<Planned> plans;
  for (const Work& w : work) plans.push_back(planned(w, options_.program.recompute_every));
  return plans;
}

MemoryNeed Session::memory_need(std::span<const Planned> plans) const {
  MemoryNeed need;
  std::set<std::string> fresh;
  for (const Planned& plan : plans) {
    for (const ValueInfo& value : plan.program->values())
      if (value.kind == ValueKind::kState && !bindings_.states.contains(value.name) &&
          fresh.insert(value.name).second)
        need.states += bytes_of(value.type);
    const uint64_t earlier = backend_.info().caller_memory ? 0 : bytes_of_earlier_runs(*plan.program);
    need.activations = std::max<uint64_t>(need.activations, plan.memory.arena_bytes + earlier);
    need.prepared =
        std::max<uint64_t>(need.prepared, backend_.prepared_bytes(*plan.program, plan.selection, bindings_));
  }
  need.activations -= std::min<uint64_t>(need.activations, bindings_.arena.bytes);
  // What a device holds by itself is asked for once: a run in flight may have it just now.
  if (need.activations <= granted_) need.activations = 0;
  return need;
}

void Session::expect_rows(Rows rows, int64_t longest) {
  int64_t& known = rows == Rows::kTrained ? longest_trained_ : longest_evaluated_;
  known = std::max(known, longest);
}

/// Of a program of this kind; 0: nobody knows.  Rows of training are evaluated, too, and a base serves both.
int64_t Session::longest_row(ProgramKind kind) const {
  if (kind == ProgramKind::kStep || kind == ProgramKind::kAccumulate) return longest_trained_;
  if (kind == ProgramKind::kUpdate) return 0;
  if (kind == ProgramKind::kEvaluate && longest_evaluated_ == 0) return 0;
  return std::max(longest_trained_, longest_evaluated_);
}

MemoryNeed Session::memory_need(std::span<const Work> work) const { return memory_need(planned(work)); }

/// Who asks last sees what all others hold, and none of them takes more before: the least answer is right.
std::optional<uint64_t> Session::free_share() const {
  const std::optional<uint64_t> free = backend_.free_bytes();
  if (group() == nullptr) return free;
  constexpr int64_t kUnknown = int64_t{1} << 62;  // asked all the same, as all ranks must
  const int sharers = backend_.info().host_memory ? group()->local_size() : 1;
  const int64_t least = least_over(group(), free ? static_cast<int64_t>(*free) / sharers : kUnknown);
  return least == kUnknown ? std::nullopt : std::optional(static_cast<uint64_t>(least));
}

void Session::reserve(std::span<const Work> work) { reserve(work, backend_.free_bytes()); }

void Session::reserve(std::span<const Work> work, std::optional<uint64_t> free) {
  provide(planned(work), work, free);
}

void Session::provide(std::span<const Planned> plans, std::span<const Work> work,
                      std::optional<uint64_t> free) {
  size_t largest = 0;
  for (size_t i = 1; i < plans.size(); ++i)
    if (plans[i].memory.arena_bytes > plans[largest].memory.arena_bytes) largest = i;
  const MemoryNeed need = memory_need(plans);
  if (need.activations == 0 && need.states == 0) return;
  if (free && need.total() > *free) throw Error(ErrorCode::kMemory, shortage(need, *free, work[largest]));
  for (const Planned& plan : plans)
    for (const ValueInfo& value : plan.program->values())
      if (value.kind == ValueKind::kState && !bindings_.states.contains(value.name))
        bindings_.states[value.name] = backend_.allocate(bytes_of(value.type), Memory::kDevice).value();
  if (backend_.info().caller_memory)
    grow_arena(plans[largest].memory.arena_bytes);
  else
    granted_ = std::max(granted_, need.activations);
}

std::string Session::shortage(const MemoryNeed& need, uint64_t free, const Work& largest) const {
  const int64_t every = options_.program.recompute_every;
  const auto need_of = [&](Bucket bucket, bool recompute) {
    Work smaller = largest;
    smaller.bucket = bucket;
    const Planned plan = planned(smaller, recompute ? std::max<int64_t>(every, 1) : 0);
    return memory_need(std::span(&plan, 1)).total();
  };
  const int sharers = group() != nullptr && backend_.info().host_memory ? group()->local_size() : 1;
  return to_string(MemoryShortage{largest.kind, largest.bucket, every > 0, need, free, sharers,
                                  backend_.info().kind, backend_.info().memory_remedy, token_rounding(),
                                  need_of});
}

Session::Compiled& Session::compiled(const Work& work) {
  const auto found = cache_.find(work);
  if (found != cache_.end() && found->second.program->longest_row() == longest_row(work.kind)) {
    found->second.last_use = ++uses_;
    return found->second;
  }
  if (found != cache_.end()) cache_.erase(found);
  while (!cache_.empty() && cache_.size() >= options_.cached_programs) {
    auto oldest = cache_.begin();
    for (auto it = cache_.begin(); it != cache_.end(); ++it)
      if (it->second.last_use < oldest->second.last_use) oldest = it;
    cache_.erase(oldest);
  }
  Planned plan = planned(work, options_.program.recompute_every);
  provide(std::span(&plan, 1), std::span(&work, 1), backend_.free_bytes());
  Compiled compiled;
  compiled.executable = backend_.compile(*plan.program, plan.selection, plan.memory, bindings_).value();
  compiled.program = std::move(plan.program);
  compiled.last_use = ++uses_;
  return cache_[work] = std::move(compiled);
}

Session::CompiledWork Session::compile(const Work& work) {
  const Compiled& it = compiled(work);
  return {*it.program, *it.executable};
}

const Program& Session::program(const Pending& run) const {
  for (const auto& [key, compiled] : cache_)
    if (compiled.executable == run.executable) return *compiled.program;
  fail(ErrorCode::kInternal, "the program of this run is not in the cache any more");
}

/// Executables hold addresses in the arena: a larger arena makes all of them stale.  One that was too small
/// once becomes larger than it must, where there is room, so as not to be so soon again.
void Session::grow_arena(size_t bytes) {
  if (bindings_.arena.bytes >= bytes) return;
  cache_.clear();
  const size_t more = bindings_.arena.bytes > 0 ? bytes / 8 : 0;
  bindings_.arena = {};
  Result<Buffer> arena = backend_.allocate(bytes + more, Memory::kDevice);
  if (!arena.ok()) arena = backend_.allocate(bytes, Memory::kDevice);
  bindings_.arena = std::move(arena.value());
}

}  // namespace lathe
