// What the device on MLX does beyond single ops: fallback to the CPU, states, runs in flight.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <numeric>
#include <thread>

#include "lathe/core/cache_file.h"
#include "lathe/core/test_folder.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/fused.h"
#include "lathe/program/kernel_verdicts.h"
#include "lathe/program/memory_plan.h"
#include "tests/conformance/mlx_testing.h"

namespace lathe::mlx_testing {
namespace {

TEST_F(Mlx, LaunchesAreThoseOfTheCompiledGraph) {
  const auto backend = open_device(kMlxDevice);
  Training training(*backend);
  const PackedBatch batch = batch_of({20, 12}, 32);
  const Launches launches = training.session->plan_step(batch, {}).launches;
  // one product each: q, k, v, what follows attention, and two of the feed-forward, in two layers; pooler and
  // classifier; three times as many with the backward pass, but for the gradients of ids
  EXPECT_GE(launches.at("Matmul") + (launches.contains("AddMM") ? launches.at("AddMM") : 0), 3 * (2 * 4 + 2));
  EXPECT_FALSE(launches.contains("Reshape"));
  EXPECT_EQ(training.session->plan_step(batch, {}).launches, launches);
  EXPECT_TRUE(std::isfinite(training.session->collect(training.step(batch)).loss));
}

TEST_F(Mlx, DropoutTakesTheMasksOfTheCpu) {
  const auto mlx = open_device(kMlxDevice), cpu = open_device("cpu", {1});
  const PackedBatch batch = batch_of({40, 3, 11}, 64);
  Training here(*mlx), there(*cpu);
  for (int i = 0; i < 5; ++i) {
    const auto found = here.session->collect(here.step(batch)),
               wanted = there.session->collect(there.step(batch));
    EXPECT_NEAR(found.loss, wanted.loss, 5e-6) << i;
    EXPECT_NEAR(found.grad_norm, wanted.grad_norm, 1e-5 * wanted.grad_norm) << i;
  }
}

TEST_F(Mlx, RunsInFlightAreReadLaterToTheSameBits) {
  const auto mlx = open_device(kMlxDevice);
  Training one(*mlx), other(*mlx);
  std::vector<Session::Pending> pending;
  std::vector<float> losses;
  for (int i = 0; i < Executable::kRing; ++i) pending.push_back(one.step(batch_of({20 + i, 30}, 64)));
  for (int i = 0; i < Executable::kRing; ++i)
    losses.push_back(other.session->collect(other.step(batch_of({20 + i, 30}, 64))).loss);
  for (size_t i = 0; i < pending.size(); ++i) EXPECT_EQ(one.session->collect(pending[i]).loss, losses[i]);
  EXPECT_EQ(one.session->parameters().read_state("parameters"),
            other.session->parameters().read_state("parameters"));
}

TEST_F(Mlx, AnyThreadMayRunIt) {
  const auto mlx = open_device(kMlxDevice);
  const PackedBatch batch = batch_of({20, 30}, 64);
  Training one(*mlx), other(*mlx);
  for (int i = 0; i < 3; ++i) {
    float loss = 0;
    std::thread([&] { loss = one.session->collect(one.step(batch)).loss; }).join();
    EXPECT_EQ(loss, other.session->collect(other.step(batch)).loss);
  }
}

TEST_F(Mlx, AStateThatIsWrittenLeavesOutputsOfEarlierRunsAlone) {
  const auto mlx = open_device(kMlxDevice);
  Program program;
  const Value state = program.state("x", {DType::f32, {4}});
  program.output("whole", state);
  program.output("sum", add(state, program.input("y", {DType::f32, {4}})));
  Bindings bindings;
  bindings.states["x"] = mlx->allocate(16).value();
  const std::vector<float> first{1, 2, 3, 4}, second{5, 6, 7, 8};
  mlx->copy_in(bindings.states["x"], 0, std::as_bytes(std::span(first))).check();
  const Selection selection = select(program, *mlx);
  const auto run = mlx->compile(program, selection, plan_memory(program, selection, 64), bindings).value();
  Event event;
  run->run({{std::as_bytes(std::span(first))}}, &event).check();
  run->wait(event).check();
  mlx->copy_in(bindings.states["x"], 0, std::as_bytes(std::span(second))).check();
  std::vector<float> found(4);
  run->read(event, 0, std::as_writable_bytes(std::span(found))).check();
  EXPECT_EQ(found, first);
  mlx->copy_out(std::as_writable_bytes(std::span(found)), bindings.states["x"], 0).check();
  EXPECT_EQ(found, second);
  EXPECT_FALSE(mlx->copy_in(bindings.states["x"], 8, std::as_bytes(std::span(second))).ok());
  EXPECT_FALSE(run->run({{}}, &event).ok());
  EXPECT_FALSE(run->read({event.ticket + 7}, 0, std::as_writable_bytes(std::span(found))).ok());
}

TEST_F(Mlx, CompiledFunctionsAreAsManyAsLengthsAndNoMoreThanAreKept) {
  const auto mlx = open_device(kMlxDevice);
  {
    Training training(*mlx, DType::f32, tiny_config());
    size_t seen = 0;
    for (int round = 0; round < 2; ++round)  // nine lengths that are padded differently, all of one program
      for (const int length : {20, 50, 90, 120, 180, 250, 380, 500, 600}) {
        training.session->collect(training.step(batch_of({length}, 640)));
        EXPECT_EQ(*compiled_functions(kMlxDevice), std::min<size_t>(++seen, mlx::kFunctionsOfAProgram));
      }
    EXPECT_EQ(training.session->programs().size(), 1u);
  }
  EXPECT_EQ(*compiled_functions(kMlxDevice), 0u);
}

/// MLX keeps compiled functions by thread, each until it is told or the thread ends.
TEST_F(Mlx, CompiledFunctionsLeaveOtherThreadsWithTheirProgram) {
  const auto mlx = open_device(kMlxDevice);
  const PackedBatch batch = batch_of({20, 30}, 64);
  auto training = std::make_unique<Training>(*mlx, DType::f32, tiny_config());
  training->session->collect(training->step(batch));
  std::promise<void> ran, checked;
  std::thread other([&] {
    training->session->collect(training->step(batch));
    ran.set_value();
    checked.get_future().wait();
  });
  ran.get_future().wait();
  EXPECT_EQ(*compiled_functions(kMlxDevice), 2u);
  training.reset();
  EXPECT_EQ(*compiled_functions(kMlxDevice), 0u);
  checked.set_value();
  other.join();
}

TEST_F(Mlx, OpsWithoutImplementationAreOneErrorThatNamesTheSwitch) {
  const Variable mask("LATHE_MLX_MASK", "attention,gelu_bwd,adamw");
  const std::string text = error_of_a_step(*open_device(kMlxDevice)).what();
  for (const char* part : {"attention(", "gelu_bwd(", "adamw(", "LATHE_MPS_FALLBACK=1", "--device cpu"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST_F(Mlx, WithTheSwitchTheyRunOnTheCpuWithOneWarningEach) {
  const PackedBatch batch = batch_of({40, 3, 11}, 64);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const char* variable : {"LATHE_MPS_FALLBACK", "PYTORCH_ENABLE_MPS_FALLBACK"}) {
      const auto whole = open_device(kMlxDevice);
      const Variable mask("LATHE_MLX_MASK", "attention,gelu_bwd,adamw,scatter_add_rows"), on(variable, "1");
      std::vector<std::string> warnings;
      DeviceOptions options;
      options.warn = [&](const std::string& text) { warnings.push_back(text); };
      const auto parted = open_device(kMlxDevice, options);
      Training wanted(*whole, dtype), found(*parted, dtype);
      for (int i = 0; i < 3; ++i) {
        const auto a = found.session->collect(found.step(batch)),
                   b = wanted.session->collect(wanted.step(batch));
        const double part = dtype == DType::f32 ? 1e-5 : 1e-2;  // bf16 has 2⁻⁹ per rounding
        EXPECT_NEAR(a.loss, b.loss, part) << i;
        EXPECT_NEAR(a.grad_norm, b.grad_norm, part * b.grad_norm) << i;
      }
      EXPECT_EQ(warnings.size(), 4u);
      for (const std::string& text : warnings)
        EXPECT_NE(text.find("runs on the CPU"), std::string::npos) << text;
    }
}

/// Only Metal runs them: here they are offered to be chosen.
TEST_F(Mlx, OwnKernelsOfARunThatGoesOnAreTakenWhateverTheVerdict) {
  const TestFolder caches;
  const std::string folder = caches / "";
  const Variable offered("LATHE_MLX_OFFER_KERNELS", "1"), home("XDG_CACHE_HOME", folder.c_str());
  const auto takes = [](const Backend& device) {
    return !device.implementations(op::dropout_add_layer_norm).empty();
  };
  const auto without = open_device(kMlxDevice);
  EXPECT_FALSE(takes(*without));
  KernelVerdicts verdicts;
  {
    const Variable all(kKernelSetting, "all");
    const auto device = open_device(kMlxDevice);
    ASSERT_TRUE(takes(*device));
    verdicts.set(device->implementations(op::dropout_add_layer_norm)[0]->key, {true, 1, 2});
  }
  write_cache(cache_path(KernelVerdicts::kFile), verdicts.text());
  const auto with = open_device(kMlxDevice);
  EXPECT_TRUE(takes(*with));
  const std::string used = with->tuning(), unused = without->tuning();
  with->adopt_tuning(unused);
  without->adopt_tuning(used);
  EXPECT_FALSE(takes(*with));
  EXPECT_TRUE(takes(*without));
}

TEST_F(Mlx, AProfileHasEveryNodeInOrder) {
  const auto mlx = open_device(kMlxDevice);
  Training training(*mlx);
  const PackedBatch batch = batch_of({5, 9}, 64);
  const auto pending = training.step(batch);
  const float loss = training.session->collect(pending).loss;
  EXPECT_GT(loss, 0);
  pending.compiled->executable->profile(true);
  training.session->collect(training.step(batch));
  const auto spans = pending.compiled->executable->timeline();
  ASSERT_EQ(spans.size(), pending.compiled->program->nodes().size());
  for (size_t n = 0; n < spans.size(); ++n) {
    EXPECT_EQ(spans[n].node, static_cast<int>(n));
    EXPECT_LE(spans[n].begin_ns, spans[n].end_ns);
  }
}

}  // namespace
}  // namespace lathe::mlx_testing
