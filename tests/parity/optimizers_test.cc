// SGD and Adafactor, and the smoothed loss, compared with PyTorch and transformers (tests/golden/arguments).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "lathe/core/source_folder_testing.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"
#include "lathe/optim/shards.h"
#include "lathe/program/autograd.h"
#include "tests/device_under_test.h"

namespace lathe::optimizers_test {
namespace {

using nlohmann::json;

json golden(const char* name) {
  std::ifstream file(source_path("tests/golden/arguments/") + name);
  return json::parse(file);
}

std::vector<float> flat(const json& parts) {
  std::vector<float> all;
  for (const auto& part : parts)
    for (const double x : part) all.push_back(static_cast<float>(x));
  return all;
}

OptimizerOptions options_of(const json& row) {
  const json& s = row["settings"];
  if (row["name"] == "adafactor") return AdafactorOptions{.weight_decay = s.value("weight_decay", 0.0)};
  return SgdOptions{s.value("momentum", 0.0), s.value("dampening", 0.0), s.value("weight_decay", 0.0),
                    s.value("nesterov", false)};
}

std::span<const std::byte> bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::shared_ptr<Executable> compiled(const Program& program, Backend& backend, Bindings& bindings) {
  const Selection selection = select(program, backend);
  const MemoryPlan plan = backend.plan(program, selection);
  bindings.arena = backend.allocate(std::max<size_t>(plan.arena_bytes, 1)).value();
  return backend.compile(program, selection, plan, bindings).value();
}

/// The parameters after every update.  head_rate: the learning rate of every other parameter.
std::vector<std::vector<float>> train(Backend& backend, const json& row, const OptimizerOptions& options,
                                      float rate, std::optional<float> head_rate = {}) {
  FlatParameters parameters;
  for (const auto& shape : row["shapes"]) parameters.shapes.push_back(shape.get<Shape>());
  for (size_t i = 0; i < parameters.shapes.size(); ++i) parameters.of_head.push_back(i % 2 == 1);
  for (size_t i = 0; i < row["decayed"].get<size_t>(); ++i)
    parameters.decayed += elements(parameters.shapes[i]);
  std::vector<float> values = flat(row["start"]);
  const Shape all{static_cast<int64_t>(values.size())};

  Program program;
  Bindings bindings;
  const auto state = [&](const std::string& name, const std::vector<float>& start) {
    Buffer& buffer = bindings.states[name] = backend.allocate(start.size() * sizeof(float)).value();
    backend.copy_in(buffer, 0, bytes(start)).check();
    return program.state(name, {DType::f32, {static_cast<int64_t>(start.size())}});
  };
  OptimizerValues v{state("parameters", values), {program.input("gradients", {DType::f32, all})}, {}};
  for (const OptimizerState& s : optimizer_states(options, parameters))
    v.states.push_back(state(s.name, std::vector<float>(static_cast<size_t>(s.size))));
  HyperValues hyper{program.input("hyper", {DType::f32, {kHyperCount}}), {}};
  if (head_rate) hyper.head = program.input("head_hyper", {DType::f32, {kHyperCount}});
  program.output("norm", append_update(options, parameters, v, {}, hyper, {}));
  const auto executable = compiled(program, backend, bindings);

  std::vector<std::vector<float>> after;
  for (const auto& step : row["steps"]) {
    const std::vector<float> gradients = flat(step["gradients"]);
    const StepFactors factors = step_factors(options, static_cast<int64_t>(after.size()) + 1);
    const std::vector<float> h{rate, static_cast<float>(factors.first), static_cast<float>(factors.second), 0,
                               1};
    std::vector<float> of_head = h;
    of_head[0] = head_rate.value_or(0);
    Slot slot;
    slot.inputs = {bytes(gradients), bytes(h)};
    if (head_rate) slot.inputs.push_back(bytes(of_head));
    Event event;
    executable->run(slot, &event).check();
    executable->wait(event).check();
    backend.copy_out(std::as_writable_bytes(std::span(values)), bindings.states["parameters"], 0).check();
    after.push_back(values);
  }
  return after;
}

class OnDevice : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, devices_under_test(),
                         [](const auto& device) { return std::string(device.param); });

TEST_P(OnDevice, OptimizersAreThoseOfTorchAndTransformers) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam());
  for (const auto& row : golden("optimizers.json")) {
    const OpDef& op = row["name"] == "sgd" ? op::sgd : op::adafactor;
    if (backend->implementations(op).empty()) continue;  // Trainer refuses it there
    const auto after = train(*backend, row, options_of(row), row["settings"]["lr"].get<float>());
    for (size_t s = 0; s < after.size(); ++s) {
      const std::vector<float> wanted = flat(row["steps"][s]["parameters"]);
      ASSERT_EQ(after[s].size(), wanted.size());
      // values around 1, a few roundings of f32 per step, steps of 0.1 at most
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(after[s][i], wanted[i], 4 * 0x1p-24 * (std::abs(wanted[i]) + 1))
            << row["name"] << row["settings"] << " step " << s << " element " << i;
    }
  }
}

/// Without clipping nothing of one parameter reaches another: each is as in a run in which all have its rate.
TEST_P(OnDevice, AHeadHasItsOwnLearningRate) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam());
  constexpr float kRate = 0.01f, kHeadRate = 0.07f;
  for (const auto& row : golden("optimizers.json"))
    for (const OptimizerOptions& options :
         {options_of(row), OptimizerOptions(AdamWOptions{.weight_decay = 0.1})}) {
      const OpDef& op = options.index() == 0 ? op::adamw : options.index() == 1 ? op::sgd : op::adafactor;
      if (backend->implementations(op).empty()) continue;
      const auto mixed = train(*backend, row, options, kRate, kHeadRate);
      const auto slow = train(*backend, row, options, kRate), fast = train(*backend, row, options, kHeadRate);
      size_t differ = 0;
      for (size_t step = 0; step < mixed.size(); ++step) {
        size_t at = 0;
        for (size_t k = 0; k < row["shapes"].size(); ++k)
          for (int64_t n = elements(row["shapes"][k].get<Shape>()); n > 0; --n, ++at) {
            const float wanted = (k % 2 == 1 ? fast : slow)[step][at];
            differ += slow[step][at] != fast[step][at];
            EXPECT_NEAR(mixed[step][at], wanted, 4 * 0x1p-24 * (std::abs(wanted) + 1))
                << name_of(options) << row["settings"] << " parameter " << k << " step " << step;
          }
      }
      EXPECT_GT(differ, 0u);
    }
}

TEST_P(OnDevice, SmoothedLossIsThatOfLabelSmoother) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto backend = open_device(GetParam());
  for (const auto& row : golden("label_smoothing.json")) {
    const std::vector<float> logits = flat(row["logits"]), one{1};
    const auto labels = row["labels"].get<std::vector<int32_t>>();
    const auto rows = static_cast<int64_t>(labels.size());
    Program program;
    const Value x = program.input("logits", {DType::f32, {rows, static_cast<int64_t>(logits.size()) / rows}});
    const Value y = program.input("labels", {DType::i32, {rows}});
    const Value weight = program.input("weight", {DType::f32, {1}});
    const Value loss =
        program.emit(op::cross_entropy, {x, y}, {{"smoothing", row["smoothing"].get<double>()}})[0];
    program.output("loss", loss);
    program.output("gradient", gradients(loss, weight, std::vector<Value>{x}, op::add)[0]);
    Bindings bindings;
    const auto executable = compiled(program, *backend, bindings);
    Slot slot;
    slot.inputs = {bytes(logits), std::as_bytes(std::span(labels)), bytes(one)};
    Event event;
    executable->run(slot, &event).check();
    float found = 0;
    std::vector<float> gradient(logits.size());
    executable->read(event, 0, std::as_writable_bytes(std::span(&found, 1))).check();
    executable->read(event, 1, std::as_writable_bytes(std::span(gradient))).check();
    // logits up to 10 carry a rounding of 2⁻²² each into the exponents
    EXPECT_NEAR(found, row["loss"].get<double>(), 0x1p-20);
    const std::vector<float> wanted = flat(row["gradient"]);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(gradient[i], wanted[i], 0x1p-21);
  }
}

}  // namespace
}  // namespace lathe::optimizers_test
