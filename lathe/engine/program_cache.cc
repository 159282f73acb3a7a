#include "lathe/engine/program_cache.h"

#include <algorithm>
#include <set>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/ops.h"
#include "lathe/program/fuse.h"
#include "lathe/program/hoist.h"

namespace lathe {
namespace {

/// Bytes of the outputs of runs before the last that can still be read, on a device that manages memory
/// itself.
uint64_t bytes_of_earlier_runs(const Program& program) {
  uint64_t bytes = 0;
  for (size_t o = 0; o < program.outputs().size(); ++o)
    if (!program.is_of_last_run(o)) bytes += bytes_of(program.type(program.outputs()[o].second));
  return (Executable::kRing - 1) * bytes;
}

}  // namespace

CompiledProgram::CompiledProgram(std::unique_ptr<Program> traced, std::unique_ptr<Executable> compiled)
    : program(std::move(traced)), executable(std::move(compiled)) {}

int CompiledProgram::place(std::string_view output) const {
  const auto& outputs = program->outputs();
  for (size_t place = 0; place < outputs.size(); ++place)
    if (outputs[place].first == output) return static_cast<int>(place);
  return -1;
}

Status CompiledProgram::read(Event event, std::string_view output, std::span<std::byte> destination) const {
  if (!gives(output)) return {ErrorCode::kInternal, fmt::format("the program does not give {}", output)};
  return executable->read(event, static_cast<size_t>(place(output)), destination);
}

const Type& CompiledProgram::type(std::string_view output) const {
  return program->type(program->outputs().at(static_cast<size_t>(place(output))).second);
}

ProgramCache::ProgramCache(Backend& backend, TaskModel& model, Parameters& parameters,
                           const ProgramOptions& options, size_t most)
    : backend_(backend), model_(model), parameters_(parameters), options_(options), most_(most) {}

ProgramCache::Planned ProgramCache::planned(const Work& work, int64_t recompute_every) const {
  if (nn::layout_of(model_, options_.storage) != parameters_.layout())
    fail(ErrorCode::kUsage,
         "parameters of the model were frozen or thawed since this trainer was made, as another one with "
         "--freeze_base_model does; give each a model of its own");
  ProgramOptions options = options_;
  options.targets = work.targets;
  options.scores = work.scores;
  options.base_given = work.base_given;
  options.gradient_given = work.gradient_given;
  options.head_width = work.head_width;
  if (work.kind == ProgramKind::kEvaluate) options.quantization = work.quantization;
  options.dtype = work.dtype.value_or(options.dtype);
  options.recompute_every = recompute_every;
  options.longest_row = longest_row(work.kind);
  Planned plan;
  plan.program = build_program(model_, work.kind, work.bucket, options);
  fuse(*plan.program, backend_, fusions());
  if (options.ranks > 1) {
    hoist(*plan.program, op::all_reduce);
    hoist(*plan.program, op::gather_ranks);
  }
  plan.selection = select(*plan.program, backend_);
  plan.memory = backend_.plan(*plan.program, plan.selection);
  return plan;
}

std::vector<ProgramCache::Planned> ProgramCache::planned(std::span<const Work> work) const {
  std::vector<Planned> plans;
  for (const Work& w : work) plans.push_back(planned(w, options_.recompute_every));
  return plans;
}

MemoryNeed ProgramCache::memory_need(std::span<const Planned> plans) const {
  MemoryNeed need;
  std::set<std::string> fresh;
  for (const Planned& plan : plans) {
    for (const ValueInfo& value : plan.program->values())
      if (value.kind == ValueKind::kState && !parameters_.buffers().contains(value.name) &&
          fresh.insert(value.name).second)
        need.states += bytes_of(value.type);
    const uint64_t earlier = backend_.info().caller_memory ? 0 : bytes_of_earlier_runs(*plan.program);
    need.activations = std::max<uint64_t>(need.activations, plan.memory.arena_bytes + earlier);
    need.prepared =
        std::max<uint64_t>(need.prepared, backend_.prepared_bytes(*plan.program, plan.selection, bindings()));
  }
  need.activations -= std::min<uint64_t>(need.activations, arena_.bytes);
  // What a device holds itself is requested only once: a run in flight may be using it now.
  if (need.activations <= granted_) need.activations = 0;
  return need;
}

void ProgramCache::expect_rows(Rows rows, int64_t longest) {
  int64_t& known = rows == Rows::kTrained ? longest_trained_ : longest_evaluated_;
  known = std::max(known, longest);
}

/// For a program of this kind; 0: not known.  Rows of training are evaluated, too, and a base serves both.
int64_t ProgramCache::longest_row(ProgramKind kind) const {
  if (kind == ProgramKind::kStep || kind == ProgramKind::kAccumulate || kind == ProgramKind::kForward)
    return longest_trained_;
  if (kind == ProgramKind::kUpdate || kind == ProgramKind::kLoss) return 0;
  if (kind == ProgramKind::kEvaluate && longest_evaluated_ == 0) return 0;
  return std::max(longest_trained_, longest_evaluated_);
}

MemoryNeed ProgramCache::memory_need(std::span<const Work> work) const { return memory_need(planned(work)); }

/// The rank that asks last sees what all others hold, and none of them takes more before.  So the least
/// answer is right.
std::optional<uint64_t> ProgramCache::free_share() const {
  const std::optional<uint64_t> free = backend_.free_bytes();
  if (backend_.group() == nullptr) return free;
  constexpr int64_t kUnknown = int64_t{1} << 62;  // it still asks, because all ranks must
  const int64_t least =
      least_over(backend_.group(), free ? static_cast<int64_t>(*free) / sharers() : kUnknown);
  return least == kUnknown ? std::nullopt : std::optional(static_cast<uint64_t>(least));
}

void ProgramCache::reserve(std::span<const Work> work) { reserve(work, backend_.free_bytes()); }

void ProgramCache::reserve(std::span<const Work> work, std::optional<uint64_t> free) {
  provide(planned(work), work, free);
}

void ProgramCache::provide(std::span<const Planned> plans, std::span<const Work> work,
                           std::optional<uint64_t> free) {
  size_t largest = 0;
  for (size_t i = 1; i < plans.size(); ++i)
    if (plans[i].memory.arena_bytes > plans[largest].memory.arena_bytes) largest = i;
  const MemoryNeed need = memory_need(plans);
  if (need.activations == 0 && need.states == 0) return;
  if (free && need.total() > *free) throw Error(ErrorCode::kMemory, shortage(need, *free, work[largest]));
  for (const Planned& plan : plans)
    for (const ValueInfo& value : plan.program->values())
      if (value.kind == ValueKind::kState && !parameters_.buffers().contains(value.name))
        parameters_.allocate(value.name, bytes_of(value.type));
  if (backend_.info().caller_memory)
    grow_arena(plans[largest].memory.arena_bytes);
  else
    granted_ = std::max(granted_, need.activations);
}

std::string ProgramCache::shortage(const MemoryNeed& need, uint64_t free, const Work& largest) const {
  const int64_t every = options_.recompute_every;
  const auto need_of = [&](Bucket bucket, bool recompute) {
    Work smaller = largest;
    smaller.bucket = bucket;
    const Planned plan = planned(smaller, recompute ? std::max<int64_t>(every, 1) : 0);
    return memory_need(std::span(&plan, 1)).total();
  };
  const DeviceInfo& device = backend_.info();
  return to_string(MemoryShortage{largest.kind, largest.bucket, every > 0, need, free, sharers(), device.kind,
                                  backend_.way_out(ErrorCode::kMemory), device.token_rounding, need_of});
}

int ProgramCache::sharers() const {
  const ProcessGroup* group = backend_.group();
  return group != nullptr && backend_.info().host_memory ? group->local_size() : 1;
}

std::shared_ptr<const CompiledProgram> ProgramCache::compile(const Work& work) {
  const auto found = cache_.find(work);
  if (found != cache_.end() && found->second.compiled->program->longest_row() == longest_row(work.kind)) {
    found->second.last_use = ++uses_;
    return found->second.compiled;
  }
  if (found != cache_.end()) cache_.erase(found);
  make_room();
  Planned plan = planned(work, options_.recompute_every);
  provide(std::span(&plan, 1), std::span(&work, 1), backend_.free_bytes());
  auto executable = backend_.compile(*plan.program, plan.selection, plan.memory, bindings()).value();
  auto compiled = std::make_shared<const CompiledProgram>(std::move(plan.program), std::move(executable));
  cache_[work] = {compiled, ++uses_};
  return compiled;
}

void ProgramCache::make_room() {
  while (!cache_.empty() && cache_.size() >= most_) {
    auto oldest = cache_.begin();
    for (auto it = cache_.begin(); it != cache_.end(); ++it)
      if (it->second.last_use < oldest->second.last_use) oldest = it;
    cache_.erase(oldest);
  }
}

/// Executables hold addresses in the arena: a larger arena makes all of them stale.  An arena that was too
/// small once becomes larger than necessary, if there is room, so that it lasts longer.
void ProgramCache::grow_arena(size_t bytes) {
  if (arena_.bytes >= bytes) return;
  cache_.clear();
  const size_t more = arena_.bytes > 0 ? bytes / 8 : 0;
  arena_ = {};
  Result<Buffer> arena = backend_.allocate(bytes + more);
  if (!arena.ok()) arena = backend_.allocate(bytes);
  arena_ = std::move(arena.value());
}

}  // namespace lathe
