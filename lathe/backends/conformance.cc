#include "lathe/backends/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "lathe/backends/conformance_bench.h"
#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/ceil_div.h"
#include "lathe/ops/elementwise.h"
#include "lathe/program/memory_plan.h"

namespace lathe {
namespace {

constexpr size_t kGuard = 256;  // bytes around every tensor
constexpr std::byte kGuardByte{0xA5};
constexpr std::byte kPoison{0xFF};  // all-ones is NaN in every float format

/// Every value in memory of its own, with guards between them; views stay views.
MemoryPlan guarded_plan(const Backend& backend, const Program& program, const Selection& selection) {
  const size_t alignment = std::max<size_t>(backend.info().alignment, 64);
  MemoryPlan plan = plan_memory(program, selection, alignment);
  const Node& node = program.nodes()[0];
  if (node.op->aliasing != Aliasing::kNone) return plan;
  size_t at = std::max(kGuard, alignment);
  for (size_t id = 0; id < plan.places.size(); ++id) {
    if (plan.places[id].state >= 0) continue;
    plan.places[id].offset = at;
    at += round_up(bytes_of(program.type(static_cast<int>(id))) + kGuard, alignment);
  }
  plan.workspaces = {at};
  const size_t workspace = selection[0]->workspace_bytes ? selection[0]->workspace_bytes(node, program) : 0;
  plan.arena_bytes = at + workspace + kGuard;
  return plan;
}

/// Memory of one run: the arena full of guard bytes, tensors and workspace poisoned, states filled.
struct RunMemory {
  Bindings bindings;
};

RunMemory make_memory(Backend& backend, const TestBench& bench, const MemoryPlan& plan) {
  RunMemory memory;
  memory.bindings.arena = backend.allocate(plan.arena_bytes).value();
  std::vector<std::byte> arena(plan.arena_bytes, kGuardByte);
  const auto poison = [&](size_t at, size_t bytes) { std::memset(arena.data() + at, int(kPoison), bytes); };
  for (size_t id = 0; id < plan.places.size(); ++id)
    if (plan.places[id].state < 0)
      poison(plan.places[id].offset, bytes_of(bench.program.type(static_cast<int>(id))));
  if (plan.arena_bytes > plan.workspaces[0] + kGuard)
    poison(plan.workspaces[0], plan.arena_bytes - plan.workspaces[0] - kGuard);
  backend.copy_in(memory.bindings.arena, 0, arena).check();
  for (size_t i = 0; i < bench.in_types.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    if (bench.program.find(name) < 0 || !updates_in_place(*bench.node().op, i)) continue;
    Buffer buffer = backend.allocate(bench.inputs[i].size()).value();
    backend.copy_in(buffer, 0, bench.inputs[i]).check();
    memory.bindings.states[name] = buffer;
  }
  return memory;
}

Slot make_slot(const TestBench& bench) {
  Slot slot;
  for (size_t i = 0; i < bench.inputs.size(); ++i)
    if (!updates_in_place(*bench.node().op, i) && bench.in_types[i].shape != Shape{-1})
      slot.inputs.emplace_back(bench.inputs[i]);
  return slot;
}

/// The same with outputs over inputs.
MemoryPlan laid_over(MemoryPlan plan, const Node& node, const std::vector<InPlace>& pairs) {
  for (const InPlace& pair : pairs)
    plan.places[static_cast<size_t>(node.out[static_cast<size_t>(pair.out)])] =
        plan.places[static_cast<size_t>(node.in[static_cast<size_t>(pair.in)])];
  return plan;
}

/// The ways in which an implementation may write outputs over inputs: each pair by itself, and as many pairs
/// as are possible together.
std::vector<std::vector<InPlace>> ways_to_overwrite(const TestBench& bench, const Impl& impl) {
  std::vector<std::vector<InPlace>> ways;
  std::vector<InPlace> together;
  for (const InPlace& pair : impl.may_overwrite) {
    const int in = bench.node().in[static_cast<size_t>(pair.in)];
    const int out = bench.node().out[static_cast<size_t>(pair.out)];
    if (in < 0 || bytes_of(bench.program.type(in)) != bytes_of(bench.program.type(out))) continue;
    ways.push_back({pair});
    const auto meets = [&](const InPlace& other) { return other.in == pair.in || other.out == pair.out; };
    if (std::ranges::none_of(together, meets)) together.push_back(pair);
  }
  if (together.size() > 1) ways.push_back(together);
  return ways;
}

/// The first byte outside tensors and workspace that is not a guard byte any more, or an input that changed
/// and that no output was written over.
std::string check_guards(Backend& backend, const TestBench& bench, const MemoryPlan& plan,
                         const Bindings& bindings) {
  if (!backend.info().caller_memory || bench.node().op->aliasing != Aliasing::kNone) return "";
  std::vector<std::byte> arena(plan.arena_bytes);
  backend.copy_out(arena, bindings.arena, 0).check();
  std::vector<bool> owned(arena.size(), false);
  for (size_t id = 0; id < plan.places.size(); ++id)
    if (plan.places[id].state < 0)
      for (size_t b = 0; b < bytes_of(bench.program.type(static_cast<int>(id))); ++b)
        owned[plan.places[id].offset + b] = true;
  for (size_t b = plan.workspaces[0]; b + kGuard < arena.size(); ++b) owned[b] = true;
  for (size_t b = 0; b < arena.size(); ++b)
    if (!owned[b] && arena[b] != kGuardByte)
      return fmt::format("wrote outside of its tensors, at arena byte {}", b);
  for (size_t i = 0; i < bench.inputs.size(); ++i) {
    const int id = bench.program.find("in" + std::to_string(i));
    if (id < 0 || plan.places[static_cast<size_t>(id)].state >= 0) continue;
    const auto lies_there = [&](int out) {
      return plan.places[static_cast<size_t>(out)].offset == plan.places[static_cast<size_t>(id)].offset;
    };
    if (std::ranges::any_of(bench.node().out, lies_there)) continue;
    if (std::memcmp(arena.data() + plan.places[static_cast<size_t>(id)].offset, bench.inputs[i].data(),
                    bench.inputs[i].size()) != 0)
      return fmt::format("changed its input {}", i);
  }
  return "";
}

std::vector<std::vector<std::byte>> run_once(Backend& backend, const TestBench& bench,
                                             const Selection& selection, const MemoryPlan& plan,
                                             std::string* fault) {
  RunMemory memory = make_memory(backend, bench, plan);
  auto executable = backend.compile(bench.program, selection, plan, memory.bindings).value();
  Event event;
  const Slot slot = make_slot(bench);
  executable->run(slot, &event).check();
  std::vector<std::vector<std::byte>> outputs;
  for (size_t o = 0; o < bench.node().out.size(); ++o) {
    outputs.emplace_back(bytes_of(bench.program.type(bench.node().out[o])));
    executable->read(event, o, outputs.back()).check();
  }
  *fault = check_guards(backend, bench, plan, memory.bindings);
  return outputs;
}

/// A matrix that may have gaps between its rows where `gaps` has bit i.
bool may_have_gaps(uint32_t gaps, size_t i, const Type& type) {
  return i < 32 && (gaps >> i & 1) != 0 && type.shape.size() == 2 && size_of(type.dtype) == 2;
}

/// The op with casts before and after it: its matrices are cast from f32 before and to f32 after, where they
/// may have gaps.  The matrices between the casts have the gaps.
struct GapsBench {
  Program program;
  Selection selection;
  std::vector<std::vector<std::byte>> inputs;  ///< of those of the bench, in the same order

  GapsBench(Backend& backend, const TestBench& bench, const Impl& impl) {
    const Node& node = bench.node();
    const Impl* const cast = backend.implementations(op::cast).front();
    program.set_longest_row(bench.program.longest_row());
    std::vector<Value> in;
    for (size_t i = 0; i < bench.in_types.size(); ++i) {
      const Type& type = bench.in_types[i];
      const std::string name = "in" + std::to_string(i);
      if (bench.program.find(name) < 0) {
        in.push_back({});
      } else if (may_have_gaps(impl.gaps_in, i, type)) {
        inputs.emplace_back(static_cast<size_t>(elements(type)) * sizeof(float));
        store_doubles(DType::f32, inputs.back().data(), bench.expected->in[i]);
        in.push_back(program.emit(op::cast, {program.input(name, {DType::f32, type.shape})},
                                  {{"to", std::string(name_of(type.dtype))}})[0]);
        selection.push_back(cast);
      } else {
        inputs.push_back(bench.inputs[i]);
        in.push_back(program.input(name, type));
      }
    }
    const std::vector<Value> out = program.emit(*node.op, in, node.attrs);
    selection.push_back(&impl);
    for (size_t o = 0; o < out.size(); ++o) {
      Value value = out[o];
      if (may_have_gaps(impl.gaps_out, o, value.type())) {
        value = program.emit(op::cast, {value}, {{"to", std::string("f32")}})[0];
        selection.push_back(cast);
      }
      program.output("out" + std::to_string(o), value);
    }
  }
};

/// Runs the implementation on rows with gaps: returns where its numbers differ from `dense`, those of rows
/// without gaps, or empty.  Gaps hold NaN before.
std::string test_gaps(Backend& backend, const TestBench& bench, const Impl& impl,
                      const std::vector<std::vector<std::byte>>& dense) {
  if ((impl.gaps_in | impl.gaps_out) == 0 || bench.node().op->aliasing != Aliasing::kNone) return "";
  constexpr RowGap kEverywhere{.every = 2, .bytes = 64};
  const GapsBench gaps(backend, bench, impl);
  if (gaps.selection.size() == 1) return "";  // f32, or no matrix
  const MemoryPlan plan = plan_memory(gaps.program, gaps.selection, backend.info().alignment, kEverywhere);
  if (std::ranges::none_of(plan.places, [](const MemoryPlan::Place& place) { return place.ld > 0; }))
    return "no rows with gaps, where some may have them";
  Bindings bindings;
  bindings.arena = backend.allocate(plan.arena_bytes).value();
  backend.copy_in(bindings.arena, 0, std::vector<std::byte>(plan.arena_bytes, kPoison)).check();
  auto executable = backend.compile(gaps.program, gaps.selection, plan, bindings).value();
  const Slot slot{{gaps.inputs.begin(), gaps.inputs.end()}};
  Event event;
  executable->run(slot, &event).check();
  for (size_t o = 0; o < dense.size(); ++o) {
    const Type& type = gaps.program.type(gaps.program.outputs()[o].second);
    std::vector<std::byte> bytes(bytes_of(type));
    executable->read(event, o, bytes).check();
    const DType dense_type = bench.program.type(bench.node().out[o]).dtype;
    const auto count = static_cast<size_t>(elements(type));
    const std::vector<double> found = load_doubles(type.dtype, bytes.data(), count);
    const std::vector<double> wanted = load_doubles(dense_type, dense[o].data(), count);
    for (size_t i = 0; i < count; ++i)
      if (std::bit_cast<uint64_t>(found[i]) != std::bit_cast<uint64_t>(wanted[i]) &&
          !(std::isnan(found[i]) && std::isnan(wanted[i])))
        return fmt::format("output {}[{}] is {} where rows have gaps, {} where they have none", o, i,
                           found[i], wanted[i]);
  }
  return "";
}

/// In f16 a number that rounds to 2¹⁶ is infinity.  `found` is right if some number within `bound` of
/// `wanted` becomes infinity.
constexpr double kF16Overflow = 65520;
bool right_beyond_f16(double found, double wanted, double bound) {
  if (std::isinf(found)) return found * wanted > 0 && std::abs(wanted) + bound >= kF16Overflow;
  return std::abs(wanted) - bound < kF16Overflow && std::abs(found - wanted) <= bound;
}

/// The worst element of one output: empty if all are within the bound.
std::string compare(const TestBench& bench, size_t output, const std::vector<std::byte>& bytes) {
  const Reference& r = *bench.expected;
  const DType dtype = r.out_types[output].dtype;
  const std::vector<double> found = load_doubles(dtype, bytes.data(), r.out[output].size());
  const std::vector<double> arithmetic = arithmetic_error(*bench.node().op, r, output);
  double worst = 0;
  std::string detail;
  for (size_t i = 0; i < found.size(); ++i) {
    const double wanted = r.out[output][i];
    if (!std::isfinite(wanted)) {
      if (std::isnan(wanted) ? !std::isnan(found[i]) : found[i] != wanted)
        return fmt::format("output {}[{}] is {}, wanted {}", output, i, found[i], wanted);
      continue;
    }
    const double bound = arithmetic[i] + storing_error(dtype, wanted) + 1e-37;
    if (dtype == DType::f16 && std::abs(wanted) + bound >= kF16Overflow &&
        right_beyond_f16(found[i], wanted, bound))
      continue;
    const double error = std::abs(found[i] - wanted);
    if (!(error <= bound) && (std::isnan(error) || error / bound > worst)) {
      worst = std::isnan(error) ? INFINITY : error / bound;
      detail = fmt::format("output {}[{}] is {:.9g}, wanted {:.9g}: {:.2f} times the bound {:.3g}", output, i,
                           found[i], wanted, worst, bound);
    }
  }
  return detail;
}

std::string test_one(Backend& backend, const TestBench& bench, const Impl& impl) {
  const Selection selection{&impl};
  const MemoryPlan plan = guarded_plan(backend, bench.program, selection);
  std::string fault, second_fault;
  const auto first = run_once(backend, bench, selection, plan, &fault);
  if (!fault.empty()) return fault;
  for (size_t o = 0; o < first.size(); ++o) {
    const std::string detail = compare(bench, o, first[o]);
    if (!detail.empty()) return detail;
  }
  if (run_once(backend, bench, selection, plan, &second_fault) != first)
    return "a second run gives other bits";
  if (!second_fault.empty()) return second_fault;
  for (const auto& pairs : ways_to_overwrite(bench, impl)) {
    std::string third_fault;
    if (run_once(backend, bench, selection, laid_over(plan, bench.node(), pairs), &third_fault) != first)
      return fmt::format("output {} over input {} gives other bits", pairs[0].out, pairs[0].in);
    if (!third_fault.empty()) return third_fault;
  }
  return test_gaps(backend, bench, impl, first);
}

template <typename F>
void for_each_impl(Backend& backend, const ConformanceFilter& filter, F f) {
  for_each_case(filter, [&](const OpDef& op, const Case& c) {
    const auto run = [&](const TestBench& bench) {
      bool any = false;
      for (const Impl* impl : backend.implementations(op)) {
        if (impl->accepts && !impl->accepts(bench.node(), bench.program)) continue;
        any = true;
        f(op, c, bench, impl);
      }
      const bool lacked = c.optional || (op.optional && backend.implementations(op).empty());
      if (!any && op.fuses == nullptr && !lacked) f(op, c, bench, static_cast<const Impl*>(nullptr));
    };
    for (DType dtype : op.dtypes) {
      if (!filter.dtype.empty() && filter.dtype != name_of(dtype)) continue;
      run(*make_bench(op, c, dtype));
      if (dtype != DType::f32 && has_inputs_alike(op)) run(*make_bench(op, c, dtype, true));
    }
  });
}

double seconds_of(Executable& executable, const Slot& slot) {
  using clock = std::chrono::steady_clock;
  double best = INFINITY;
  for (int repeat = 0; repeat < 7; ++repeat) {
    Event event;
    const auto begin = clock::now();
    executable.run(slot, &event).check();
    executable.wait(event).check();
    best = std::min(best, std::chrono::duration<double>(clock::now() - begin).count());
  }
  return best;
}

}  // namespace

void conformance_test(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink) {
  for_each_impl(backend, filter,
                [&](const OpDef& op, const Case& c, const TestBench& bench, const Impl* impl) {
                  ConformanceResult result{
                      fmt::format("{} {} \"{}\" {}", op.name, impl ? impl->name : "-", c.name, bench.dtypes)};
                  try {
                    result.detail = impl ? test_one(backend, bench, *impl) : "no implementation";
                  } catch (const Error& error) {
                    result.detail = error.what();
                  }
                  result.passed = result.detail.empty();
                  sink(result);
                });
}

void conformance_perf(Backend& backend, const ConformanceFilter& filter, const ConformanceSink& sink) {
  for_each_impl(backend, filter,
                [&](const OpDef& op, const Case& c, const TestBench& bench, const Impl* impl) {
                  if (impl == nullptr) return;
                  const Selection selection{impl};
                  const MemoryPlan plan = guarded_plan(backend, bench.program, selection);
                  RunMemory memory = make_memory(backend, bench, plan);
                  auto executable = backend.compile(bench.program, selection, plan, memory.bindings).value();
                  const double seconds = seconds_of(*executable, make_slot(bench));
                  const Cost cost = op.cost(bench.node(), bench.program);
                  sink({fmt::format("{} {} \"{}\" {}", op.name, impl->name, c.name, bench.dtypes), true,
                        fmt::format("{:9.2f} us {:8.2f} GFLOP/s {:8.2f} GB/s", seconds * 1e6,
                                    cost.flops / seconds * 1e-9, cost.bytes / seconds * 1e-9)});
                });
}

std::string support_table(const std::vector<Backend*>& backends) {
  std::string table = fmt::format("{:<28}", "op");
  for (Backend* backend : backends) table += fmt::format("{:<40}", backend->info().kind);
  table += '\n';
  for (const OpDef* op : all_ops()) {
    table += fmt::format("{:<28}", op->name);
    for (Backend* backend : backends) {
      std::string names;
      for (const Impl* impl : backend->implementations(*op))
        names += (names.empty() ? "" : ", ") + impl->name;
      table += fmt::format("{:<40}", names.empty() ? "-" : names);
    }
    table += '\n';
  }
  return table;
}

}  // namespace lathe
