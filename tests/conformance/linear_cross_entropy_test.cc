// The loss over a vocabulary is that of its parts, linear and cross_entropy, and so are its gradients: on the
// reference device, which computes in double.
#include <gtest/gtest.h>

#include <cmath>

#include "lathe/backends/ref/ref_backend.h"
#include "lathe/core/philox.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/fuse.h"
#include "lathe/program/memory_plan.h"

namespace lathe::linear_cross_entropy_test {
namespace {

enum class By { kParts, kOp, kFusedOp };

/// The loss and the gradients of x, w and b.
std::vector<std::vector<double>> run(By by, double smoothing, bool bias) {
  Program program;
  const Value x = program.input("x", {DType::f32, {11, 4}}), w = program.input("w", {DType::f32, {30, 4}});
  const Value b = bias ? program.input("b", {DType::f32, {30}}) : Value{};
  const Value labels = program.input("labels", {DType::i32, {11}});
  const Value seed = program.input("seed", {DType::f32, {1}});
  const Value loss = by == By::kParts
                         ? emit(op::cross_entropy, {linear(x, w, b), labels}, {{"smoothing", smoothing}})[0]
                         : linear_cross_entropy(x, w, b, labels, smoothing).loss;
  program.output("loss", loss);
  std::vector<Value> wrt = {x, w};
  if (bias) wrt.push_back(b);
  for (const Value gradient : gradients(loss, seed, wrt, op::add))
    program.output("d" + std::to_string(gradient.id), gradient);
  program.remove_dead_nodes();
  const auto backend = make_ref_backend();
  if (by == By::kFusedOp) fuse(program, *backend, fusions());
  const Selection selection = select(program, *backend);
  auto executable = backend->compile(program, selection, plan_memory(program, selection, 64), {}).value();
  std::vector<std::vector<std::byte>> contents;
  for (const ValueInfo& value : program.values()) {
    if (value.kind != ValueKind::kInput) continue;
    std::vector<double> numbers;
    for (uint32_t i = 0; i < elements(value.type); ++i)
      numbers.push_back(value.name == "labels" ? (i % 4 == 3 ? -100 : 7 * i % 30)
                                               : philox({i, 0, 0, 0}, contents.size(), 2)[0] * 0x1p-30 - 2);
    contents.emplace_back(bytes_of(value.type));
    store_doubles(value.type.dtype, contents.back().data(), numbers);
  }
  Slot slot;
  for (const auto& content : contents) slot.inputs.emplace_back(content);
  Event event;
  executable->run(slot, &event).check();
  std::vector<std::vector<double>> outputs;
  for (size_t o = 0; o < program.outputs().size(); ++o) {
    const Type& type = program.type(program.outputs()[o].second);
    std::vector<std::byte> bytes(bytes_of(type));
    executable->read(event, o, bytes).check();
    outputs.push_back(load_doubles(type.dtype, bytes.data(), static_cast<size_t>(elements(type))));
  }
  return outputs;
}

TEST(LinearCrossEntropy, IsLinearAndCrossEntropy) {
  for (const double smoothing : {0., 0.1})
    for (const bool bias : {false, true}) {
      const auto parts = run(By::kParts, smoothing, bias);
      for (const By by : {By::kOp, By::kFusedOp}) {
        const auto found = run(by, smoothing, bias);
        ASSERT_EQ(found.size(), parts.size());
        for (size_t o = 0; o < parts.size(); ++o)
          for (size_t i = 0; i < parts[o].size(); ++i)
            ASSERT_NEAR(found[o][i], parts[o][i], 1e-6 * (1e-3 + std::abs(parts[o][i]))) << o << ' ' << i;
      }
    }
}

}  // namespace
}  // namespace lathe::linear_cross_entropy_test
