// Gradient rules against finite differences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/backends/conformance_bench.h"
#include "lathe/backends/ref/ref_backend.h"
#include "lathe/program/memory_plan.h"

namespace lathe {
namespace {

/// Σ over outputs of dout · out for inputs x, by the reference only.
double weighted(const Node& node, const Reference& like, const std::vector<std::vector<double>>& x,
                const std::vector<std::vector<double>>& dout) {
  Reference r{node, like.in_types, like.out_types, x, {}, {}};
  for (const auto& out : like.out) {
    r.out.emplace_back(out.size(), 0.0);
    r.magnitude.emplace_back(out.size(), 0.0);
  }
  node.op->reference(r);
  double sum = 0;
  for (size_t o = 0; o < dout.size(); ++o)
    for (size_t i = 0; i < dout[o].size(); ++i) sum += dout[o][i] * r.out[o][i];
  return sum;
}

/// The gradients by the op's rule, run by the reference backend.  Empty where the rule gives none.
std::vector<std::vector<double>> rule_gradients(const OpDef& op, const Case& c, const TestBench& bench,
                                                const std::vector<std::vector<double>>& dout) {
  Program program;
  std::vector<Value> in;
  for (size_t i = 0; i < c.in.size(); ++i)
    in.push_back(c.in[i] == Shape{-1} ? Value{} : program.input("in" + std::to_string(i), bench.in_types[i]));
  const auto out = program.emit(op, in, c.attrs);
  std::vector<std::vector<std::byte>> contents = bench.inputs;
  contents.erase(std::remove_if(contents.begin(), contents.end(), [](const auto& x) { return x.empty(); }),
                 contents.end());
  const Node node = program.nodes()[0];
  Grad grad{program, node, {}};
  for (size_t o = 0; o < out.size(); ++o) {
    if (dout[o].empty()) {
      grad.dout.emplace_back();
      continue;
    }
    grad.dout.push_back(program.input("dout" + std::to_string(o), out[o].type()));
    contents.emplace_back(dout[o].size() * size_of(out[o].type().dtype));
    store_doubles(out[o].type().dtype, contents.back().data(), dout[o]);
  }
  const auto din = gradient_of(grad);
  std::vector<std::pair<size_t, size_t>> sizes;
  for (size_t i = 0; i < din.size(); ++i)
    if (din[i]) {
      program.output("d" + std::to_string(i), din[i]);
      sizes.emplace_back(i, static_cast<size_t>(elements(din[i].type())));
    }
  const auto backend = make_ref_backend();
  const Selection selection = select(program, *backend);
  auto executable = backend->compile(program, selection, plan_memory(program, selection, 64), {}).value();
  Slot slot;
  for (const auto& content : contents) slot.inputs.emplace_back(content);
  Event event;
  executable->run(slot, &event).check();
  std::vector<std::vector<double>> gradients(c.in.size());
  for (size_t k = 0; k < sizes.size(); ++k) {
    std::vector<std::byte> bytes(sizes[k].second * sizeof(float));
    executable->read(event, k, bytes).check();
    gradients[sizes[k].first] = load_doubles(DType::f32, bytes.data(), sizes[k].second);
  }
  return gradients;
}

std::string grad_one(const OpDef& op, const Case& c) {
  const auto bench = make_bench(op, c, DType::f32);
  const Reference& like = *bench->expected;
  std::vector<std::vector<double>> dout;
  for (size_t o = 0; o < like.out.size(); ++o) {
    dout.emplace_back();
    if (o > 0) continue;  // the other outputs (mean, rstd, lse) only serve the backward pass
    for (size_t i = 0; i < like.out[o].size(); ++i)
      dout[o].push_back(unit_random(99, static_cast<uint32_t>(i)));
    std::vector<std::byte> stored(dout[o].size() * size_of(like.out_types[o].dtype));
    store_doubles(like.out_types[o].dtype, stored.data(), dout[o]);
    dout[o] = load_doubles(like.out_types[o].dtype, stored.data(), dout[o].size());
  }
  const auto gradients = rule_gradients(op, c, *bench, dout);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].empty() && !like.in[i].empty() && has_gradient(like.in_types[i].dtype))
      return fmt::format("input {}: the rule gives no gradient", i);
    const size_t stride = gradients[i].size() / 24 + 1;
    double largest = 0;
    for (double g : gradients[i]) largest = std::max(largest, std::abs(g));
    for (size_t e = 0; e < gradients[i].size(); e += stride) {
      auto x = like.in;
      const double h = 1e-4 * std::max(1.0, std::abs(x[i][e])) * std::min(1.0, c.scale == 0 ? 1.0 : c.scale);
      x[i][e] += h;
      const double above = weighted(bench->node(), like, x, dout);
      x[i][e] -= 2 * h;
      const double below = weighted(bench->node(), like, x, dout);
      const double numeric = (above - below) / (2 * h), error = std::abs(numeric - gradients[i][e]);
      // central differences are off by h²/6 of the third derivative; the stored gradient is rounded to f32
      if (!(error <= 2e-5 * (std::abs(numeric) + largest) + 1e-7))
        return fmt::format("input {}[{}]: rule gives {:.9g}, finite differences {:.9g}", i, e,
                           gradients[i][e], numeric);
    }
  }
  return "";
}

}  // namespace

void conformance_grad(const ConformanceFilter& filter, const ConformanceSink& sink) {
  for_each_case(filter, [&](const OpDef& op, const Case& c) {
    const auto* none = op.gradient.target<std::vector<Value> (*)(const Grad&)>();
    if ((none != nullptr && *none == not_differentiable) || c.scale == 0) return;
    if (std::ranges::find(op.dtypes, DType::f32) == op.dtypes.end()) return;
    ConformanceResult result{fmt::format("{} \"{}\" gradient", op.name, c.name)};
    result.detail = grad_one(op, c);
    result.passed = result.detail.empty();
    sink(result);
  });
}

}  // namespace lathe
