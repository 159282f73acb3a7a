#include "lathe/app/kernel_check.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <sstream>

#include "lathe/backends/conformance.h"
#include "lathe/core/cache_file.h"
#include "lathe/ops/ops.h"
#include "lathe/program/fusion.h"

namespace lathe {
namespace {

constexpr int kCalls = 8, kRuns = 9;
constexpr int64_t kWidth = 768;

/// "x[n,c] r[n,c]:x ids[n]:i32 -> ..." with n = tokens and c = kWidth.
std::vector<Type> types_of(const OpDef& op, int64_t tokens) {
  std::vector<Type> types;
  std::istringstream words(op.signature);
  const std::vector<InputRule> rules = input_rules(op);
  for (const InputRule& rule : rules) {
    std::string word;
    words >> word;
    const size_t open = word.find('['), close = word.find(']');
    std::istringstream dimensions(word.substr(open + 1, close - open - 1));
    Shape shape;
    for (std::string name; std::getline(dimensions, name, ',');)
      shape.push_back(name == "n" ? tokens : name == "c" ? kWidth : std::stoll(name));
    types.push_back({rule.fixed_dtype ? rule.dtype : DType::bf16, shape});
  }
  return types;
}

/// The op, several times over the same zeros, each with a mask of its own.
void build(Program& program, const OpDef& op, const std::vector<Type>& types) {
  std::vector<Value> in;
  for (size_t i = 0; i < types.size(); ++i) in.push_back(program.state(fmt::format("in{}", i), types[i]));
  for (int call = 0; call < kCalls; ++call) {
    Attrs attrs = op.attrs;
    if (attrs.contains("site")) attrs["site"] = int64_t{call};
    const std::vector<Value> out = program.emit(op, in, attrs);
    for (size_t o = 0; o < out.size(); ++o) program.output(fmt::format("out{} {}", call, o), out[o]);
  }
}

/// Microseconds of one call, the shortest of some runs.
double microseconds(Backend& backend, const Program& program, const Selection& selection,
                    const std::vector<Type>& types) {
  const MemoryPlan plan = plan_memory(program, selection, backend.info().alignment);
  Bindings bindings;
  bindings.arena = backend.allocate(plan.arena_bytes, Memory::kDevice).value();
  for (size_t i = 0; i < types.size(); ++i) {
    const std::vector<std::byte> zeros(bytes_of(types[i]));
    Buffer buffer = backend.allocate(zeros.size(), Memory::kDevice).value();
    backend.copy_in(buffer, 0, zeros).check();
    bindings.states[fmt::format("in{}", i)] = buffer;
  }
  const auto executable = backend.compile(program, selection, plan, bindings).value();
  double shortest = INFINITY;
  for (int run = 0; run < kRuns; ++run) {
    Event event;
    const auto begin = std::chrono::steady_clock::now();
    executable->run({}, &event).check();
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
  const std::vector<Type> types = types_of(op, tokens);
  build(fused, op, types);
  build(parts, op, types);
  decompose(parts, fusions());
  verdict.parts_us = microseconds(backend, parts, select(parts, backend), types);
  verdict.us = verdict.right ? microseconds(backend, fused, Selection(fused.nodes().size(), &impl), types)
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
                         : fmt::format("right; {:.0f} us beside {:.0f} us without it: {}", verdict.us,
                                       verdict.parts_us, verdict.good() ? "used" : "not used")));
    }
  if (tried) write_cache(path, verdicts.text());
}

}  // namespace lathe
