// A weight in the dtype of the activations gives the bits of an f32 weight that a product rounds to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/float16.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_fp8.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/program/backend.h"
#include "tests/device_under_test.h"

namespace lathe::typed_weights_test {
namespace {

constexpr int64_t kBefore = 64;  // elements of the state before the weight: 128 bytes of the smaller dtype
enum class From { kInput, kState, kMiddleOfState };

/// The content of a tensor of any float dtype.
std::vector<std::byte> stored(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = bytes.data() + i * size_of(dtype);
    const uint16_t half = dtype == DType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    dtype == DType::f32 ? std::memcpy(to, &values[i], 4) : std::memcpy(to, &half, 2);
  }
  return bytes;
}

/// In ±scale, with all bits of a float.
std::vector<float> draw(int64_t count, uint32_t salt, float scale = 1) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t bits = (static_cast<uint32_t>(i) * 747796405u + salt) * 2891336453u;
    x[i] = scale * (static_cast<float>((bits >> 16 ^ bits) * 277803737u >> 8) / 8388608.f - 1);
  }
  return x;
}

/// One product: op, implementation, dtype of the activations, sizes of the weight [n, k], and its numbers.
struct Product {
  const OpDef* op;
  DType dtype;
  int64_t rows, n, k;
  std::vector<float> weight = draw(n * k, 2);
  float activations = 1;  ///< the largest

  bool forward() const { return op == &op::linear || op == &op::linear_gelu || op == &op::linear_fp8; }
  bool adds() const { return op == &op::linear_bwd_input_add || op == &op::linear_fp8_bwd_input_add; }
};

/// Its program, and what that reads.
struct Case {
  Program program;
  std::vector<std::byte> state;
  std::vector<std::vector<std::byte>> inputs;

  Case(const Product& p, DType weight, From from) {
    std::vector<Value> in = {input("x", p.dtype, {p.rows, p.forward() ? p.k : p.n}, 1, p.activations)};
    const std::vector<std::byte> w = stored(weight, p.weight);
    if (from == From::kInput) {
      in.push_back(program.input("w", {weight, {p.n, p.k}}));
      inputs.push_back(w);
    } else {
      const int64_t before = from == From::kState ? 0 : kBefore;
      state.resize(static_cast<size_t>(before) * size_of(weight));
      state.insert(state.end(), w.begin(), w.end());
      const Shape shape = from == From::kState ? Shape{p.n, p.k} : Shape{before + p.n * p.k};
      const Value whole = program.state("state", {weight, shape});
      in.push_back(from == From::kState ? whole
                                        : program.emit(op::slice, {whole},
                                                       {{"offset", before}, {"shape", Shape{p.n, p.k}}})[0]);
    }
    if (p.forward()) in.push_back(input("b", DType::f32, {p.n}, 3));
    if (p.adds()) in.push_back(input("r", p.dtype, {p.rows, p.k}, 4));
    for (const Value out : program.emit(*p.op, in))
      program.output("out" + std::to_string(program.outputs().size()), out);
  }

  Value input(const std::string& name, DType dtype, const Shape& shape, uint32_t salt, float scale = 1) {
    inputs.push_back(stored(dtype, draw(elements(shape), salt, scale)));
    return program.input(name, {dtype, shape});
  }
  const Node& node() const { return program.nodes().back(); }
  Selection selection(Backend& backend, const Impl* impl) const {
    Selection all(program.nodes().size(), impl);
    if (all.size() > 1) all[0] = backend.implementations(op::slice).front();
    return all;
  }
};

Bindings bindings_of(Backend& backend, const Case& c) {
  Bindings bindings;
  if (c.state.empty()) return bindings;
  bindings.states["state"] = backend.allocate(c.state.size()).value();
  backend.copy_in(bindings.states["state"], 0, c.state).check();
  return bindings;
}

/// All outputs, as doubles whose NaN are one.
std::vector<std::vector<double>> run(Backend& backend, const Case& c, const Impl* impl) {
  Bindings bindings = bindings_of(backend, c);
  const Selection selection = c.selection(backend, impl);
  const MemoryPlan plan = backend.plan(c.program, selection);
  if (backend.info().caller_memory) bindings.arena = backend.allocate(plan.arena_bytes).value();
  const auto executable = backend.compile(c.program, selection, plan, bindings).value();
  Slot slot;
  for (const auto& input : c.inputs) slot.inputs.emplace_back(input);
  Event event;
  executable->run(slot, &event).check();
  std::vector<std::vector<double>> outputs;
  for (size_t o = 0; o < c.program.outputs().size(); ++o) {
    const Type& type = c.program.type(c.program.outputs()[o].second);
    std::vector<std::byte> bytes(bytes_of(type));
    executable->read(event, o, bytes).check();
    outputs.push_back(load_doubles(type.dtype, bytes.data(), static_cast<size_t>(elements(type))));
    for (double& x : outputs.back())
      if (std::isnan(x)) x = std::numeric_limits<double>::max();
  }
  return outputs;
}

class TypedWeights : public testing::TestWithParam<std::string> {
 protected:
  /// With the weight in f32 and in its own dtype, from everywhere, by every implementation.
  void compare(Backend& backend, const Product& p) {
    for (const From from : {From::kInput, From::kState, From::kMiddleOfState}) {
      const Case master(p, DType::f32, from), typed(p, p.dtype, from);
      for (const Impl* impl : backend.implementations(*p.op)) {
        const bool takes = !impl->accepts || impl->accepts(master.node(), master.program);
        EXPECT_EQ(takes, !impl->accepts || impl->accepts(typed.node(), typed.program)) << impl->name;
        if (!takes) continue;
        ++compared_;
        EXPECT_EQ(run(backend, master, impl), run(backend, typed, impl))
            << p.op->name << ' ' << impl->name << ' ' << name_of(p.dtype) << ' ' << p.rows << " x " << p.n
            << " x " << p.k << ", from " << static_cast<int>(from);
      }
    }
  }
  int compared_ = 0;
};

const std::vector<const OpDef*> kOps = {&op::linear,
                                        &op::linear_gelu,
                                        &op::linear_fp8,
                                        &op::linear_bwd_input,
                                        &op::linear_bwd_input_add,
                                        &op::linear_fp8_bwd_input,
                                        &op::linear_fp8_bwd_input_add};

TEST_P(TypedWeights, GiveTheBitsOfWeightsThatAreRoundedWhereTheyAreRead) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam(), {2});
  for (const OpDef* op : kOps)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      if (std::ranges::find(op->dtypes, dtype) == op->dtypes.end()) continue;
      for (const Shape& s : {Shape{1, 1, 1}, {7, 33, 31}, {5, 16, 64}, {40, 96, 48}, {130, 192, 128}})
        compare(*backend, {op, dtype, s[0], s[1], s[2]});
    }
  EXPECT_GE(compared_, 60);
}

/// Halves between two numbers of the dtype, beyond the largest one, below the least one, −0, not finite.
TEST_P(TypedWeights, RoundStrangeNumbersInTheSameWay) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam(), {2});
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const OpDef* op : kOps)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      if (std::ranges::find(op->dtypes, dtype) == op->dtypes.end()) continue;
      Product ties{op, dtype, 5, 32, 48};
      const float unit = dtype == DType::bf16 ? 0x1p-8f : 0x1p-11f;
      for (size_t i = 0; i < ties.weight.size(); ++i) ties.weight[i] = 1 + static_cast<float>(i % 9) * unit;
      compare(*backend, ties);
      Product small{op, dtype, 5, 32, 48};
      small.activations = dtype == DType::bf16 ? 0x1p100f : 0x1p15f;
      for (float& w : small.weight) w *= dtype == DType::bf16 ? 0x1p-128f : 0x1p-20f;
      compare(*backend, small);
      for (const float strange :
           {65519.f, 65520.f, 3.3895314e38f, 3.4e38f, -0.f, kInf, -kInf, std::nanf("")}) {
        Product one{op, dtype, 5, 32, 48};
        one.weight[3 * 48 + 5] = strange;
        compare(*backend, one);
      }
    }
}

/// With the weight itself: 2 bytes for an element, on the CPU 4, and no rounding in the workspace.
TEST_P(TypedWeights, AreReadWhereTheyLie) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam(), {2});
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const OpDef* op : kOps) {
      if (std::ranges::find(op->dtypes, dtype) == op->dtypes.end()) continue;
      const Product p{op, dtype, 32, 128, 64};
      const Case typed(p, dtype, From::kState), master(p, DType::f32, From::kState),
          computed(p, dtype, From::kInput);
      for (const Impl* impl : backend->implementations(*op)) {
        if (impl->accepts && !impl->accepts(typed.node(), typed.program)) continue;
        const size_t prepared = backend->prepared_bytes(typed.program, typed.selection(*backend, impl),
                                                        bindings_of(*backend, typed));
        EXPECT_LE(prepared, GetParam() == "cpu" && op == &op::linear ? 2 * p.weight.size() : 0)
            << op->name << ' ' << impl->name << ' ' << name_of(dtype);
        if (GetParam() == "cpu" || !impl->workspace_bytes) continue;  // there a product may pack its weight
        EXPECT_LE(impl->workspace_bytes(typed.node(), typed.program),
                  impl->workspace_bytes(master.node(), master.program));
        EXPECT_LE(impl->workspace_bytes(computed.node(), computed.program),
                  impl->workspace_bytes(master.node(), master.program));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, TypedWeights, devices_under_test(), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace lathe::typed_weights_test
