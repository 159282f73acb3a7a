#include "lathe/app/check/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <sstream>

#include "lathe/backends/conformance.h"
#include "lathe/core/cache_file.h"
#include "lathe/ops/ops.h"
#include "lathe/program/fusion.h"

namespace lathe {
namespace {

constexpr int kCalls = 8, kRuns = 9;
constexpr int64_t kWidth = 768, kHeads = 12, kRowTokens = 128;

/// A size by its name in a signature: "n" of "x[n,c] ids[n]:i32", "3C" of "qkv[N,3C]".
int64_t size_of(const std::string& name, int64_t tokens) {
  const int64_t rows = std::max<int64_t>(1, tokens / kRowTokens);
  const std::map<std::string, int64_t> sizes = {{"n", tokens},     {"N", tokens},      {"c", kWidth},
                                                {"C", kWidth},     {"3C", 3 * kWidth}, {"B", rows},
                                                {"B+1", rows + 1}, {"@heads", kHeads}};
  const auto found = sizes.find(name);
  return found != sizes.end() ? found->second : std::stoll(name);
}

/// What an op is tried on: zeros, but for the bounds of rows.  Those a program takes as its input, for
/// devices that read them on the host; all else are states.
struct Trial {
  struct Input {
    Type type;
    bool bounds;
  };
  const OpDef& op;
  std::vector<Input> inputs;
  std::vector<int32_t> bounds;

  Trial(const OpDef& tried, int64_t tokens) : op(tried) {
    std::istringstream words(op.signature);
    for (const InputRule& rule : input_rules(op)) {
      std::string word;
      words >> word;
      const size_t open = word.find('['), close = word.find(']');
      std::istringstream dimensions(word.substr(open + 1, close - open - 1));
      Shape shape;
      for (std::string name; std::getline(dimensions, name, ',');) shape.push_back(size_of(name, tokens));
      inputs.push_back({{rule.fixed_dtype ? rule.dtype : DType::bf16, shape}, rule.name == "cu"});
      if (!inputs.back().bounds) continue;
      for (int64_t row = 0; row < shape[0]; ++row)
        bounds.push_back(static_cast<int32_t>(tokens * row / (shape[0] - 1)));
    }
  }
  std::vector<std::span<const std::byte>> slot() const {
    if (bounds.empty()) return {};
    return {std::as_bytes(std::span(bounds))};
  }
};

/// The op, several times over the same tensors, each with a mask of its own.
void build(Program& program, const Trial& trial) {
  std::vector<Value> in;
  for (size_t i = 0; i < trial.inputs.size(); ++i) {
    const auto& [type, bounds] = trial.inputs[i];
    const std::string name = fmt::format("in{}", i);
    in.push_back(bounds ? program.input(name, type) : program.state(name, type));
  }
  for (int call = 0; call < kCalls; ++call) {
    Attrs attrs = trial.op.attrs;
    if (attrs.contains("site")) attrs["site"] = int64_t{call};
    if (attrs.contains("heads")) attrs["heads"] = kHeads;
    if (attrs.contains("p")) attrs["p"] = 0.1;
    const std::vector<Value> out = program.emit(trial.op, in, attrs);
    for (size_t o = 0; o < out.size(); ++o) program.output(fmt::format("out{} {}", call, o), out[o]);
  }
}

/// What a device runs that has no implementation on trial.
Selection select_proven(const Program& program, const Backend& backend) {
  Selection selection = select(program, backend);
  for (size_t n = 0; n < selection.size(); ++n) {
    const Node& node = program.nodes()[n];
    for (const Impl* impl : backend.implementations(*node.op))
      if (!selection[n]->key.empty() && impl->key.empty() && (!impl->accepts || impl->accepts(node, program)))
        selection[n] = impl;
  }
  return selection;
}

/// Microseconds of one call, the shortest of some runs.
double microseconds(Backend& backend, const Program& program, const Selection& selection,
                    const Trial& trial) {
  const MemoryPlan plan = backend.plan(program, selection);
  Bindings bindings;
  bindings.arena = backend.allocate(plan.arena_bytes).value();
  for (size_t i = 0; i < trial.inputs.size(); ++i) {
    if (trial.inputs[i].bounds) continue;
    const std::vector<std::byte> zeros(bytes_of(trial.inputs[i].type));
    Buffer buffer = backend.allocate(zeros.size()).value();
    backend.copy_in(buffer, 0, zeros).check();
    bindings.states[fmt::format("in{}", i)] = buffer;
  }
  const auto executable = backend.compile(program, selection, plan, bindings).value();
  double shortest = INFINITY;
  for (int run = 0; run < kRuns; ++run) {
    Event event;
    const auto begin = std::chrono::steady_clock::now();
    executable->run({trial.slot()}, &event).check();
    executable->wait(event).check();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, time.count());
  }
  return shortest / kCalls;
}

}  // namespace

KernelVerdict try_kernel(Backend& backend, const OpDef& op, const Impl& impl, int64_t tokens,
                         std::string* fault) {
  KernelVerdict verdict;
  int cases = 0, wrong = 0;
  const std::string id = fmt::format("{} {} \"", op.name, impl.name);
  conformance_test(backend, {op.name, ""}, [&](const ConformanceResult& result) {
    if (!result.id.starts_with(id)) return;
    ++cases;
    if (!result.passed && ++wrong == 1) *fault = result.id + ": " + result.detail;
  });
  verdict.right = cases > 0 && wrong == 0;
  Program fused, parts;
  const Trial trial(op, tokens);
  build(fused, trial);
  build(parts, trial);
  decompose(parts, fusions());
  verdict.parts_us = microseconds(backend, parts, select_proven(parts, backend), trial);
  verdict.us = verdict.right ? microseconds(backend, fused, Selection(fused.nodes().size(), &impl), trial)
                             : verdict.parts_us;
  return verdict;
}

void check_kernels(Backend& backend, const std::string& path,
                   const std::function<void(const std::string&)>& say, int64_t tokens) {
  KernelVerdicts verdicts = KernelVerdicts::parse(read_cache(path));
  bool tried = false;
  for (const OpDef* op : all_ops())
    for (const Impl* impl : backend.implementations(*op)) {
      if (impl->key.empty()) continue;
      std::string fault;
      const KernelVerdict verdict = try_kernel(backend, *op, *impl, tokens, &fault);
      verdicts.set(impl->key, verdict);
      tried = true;
      say(fmt::format(
          "{} {}: own kernel of {}: {}", verdict.right ? "[GOOD]" : "[BAD] ", backend.info().kind, op->name,
          !verdict.right ? "wrong, and not used: " + fault
                         : fmt::format("right; {:.0f} us against {:.0f} us without it: {}", verdict.us,
                                       verdict.parts_us, verdict.good() ? "used" : "not used")));
    }
  if (tried) write_cache(path, verdicts.text());
}

}  // namespace lathe
