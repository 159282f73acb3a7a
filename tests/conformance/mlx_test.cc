// What the device on MLX does beyond single ops: fallback to the CPU, memory, states, runs in flight.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <numeric>
#include <thread>

#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/core/cache_file.h"
#include "lathe/core/test_folder.h"
#include "lathe/engine/session.h"
#include "lathe/models/encoders/encoder.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/fused.h"
#include "lathe/program/kernel_verdicts.h"
#include "tests/device_under_test.h"

namespace lathe {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 600;  // above 512 rows gradients are added up by the scan
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 64;
  config.max_position_embeddings = 128;
  return config;
}

/// For many steps and long rows.
ModelConfig tiny_config() {
  ModelConfig config = small_config();
  config.hidden_size = 16;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 1024;
  return config;
}

/// Rows of these lengths, packed; tokens filled up to `tokens`.
PackedBatch batch_of(const std::vector<int>& lengths, int tokens) {
  PackedBatch batch;
  batch.rows = static_cast<int>(lengths.size());
  batch.tokens = tokens;
  batch.cu_seqlens = {0};
  for (size_t row = 0; row < lengths.size(); ++row) {
    batch.cls_index.push_back(batch.cu_seqlens.back());
    batch.labels.push_back(static_cast<int32_t>(row % 2));
    for (int t = 0; t < lengths[row]; ++t) {
      batch.input_ids.push_back(static_cast<int32_t>((row * 31 + static_cast<size_t>(t) * 7) % 600));
      batch.position_ids.push_back(t);
      batch.sample_ids.push_back(static_cast<int32_t>(row));
    }
    batch.cu_seqlens.push_back(batch.cu_seqlens.back() + lengths[row]);
  }
  for (auto* part : {&batch.input_ids, &batch.position_ids, &batch.sample_ids})
    part->resize(static_cast<size_t>(tokens), 0);
  batch.token_type_ids.assign(static_cast<size_t>(tokens), 0);
  return batch;
}

struct Training {
  explicit Training(Backend& backend, DType dtype = DType::f32, const ModelConfig& config = small_config(),
                    int64_t recompute_every = 0, int64_t classes = 2)
      : model(make_model(config, Problem::kSingleLabel, classes)) {
    Session::Options options;
    options.num_labels = classes;
    options.program.dtype = dtype;
    options.program.recompute_every = recompute_every;
    session = std::make_unique<Session>(backend, *model, options);
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      std::vector<float> values(static_cast<size_t>(elements(model->parameters()[i].shape)));
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = 0.02f * std::sin(static_cast<float>(k * 37 % 1009 + i));
      session->parameters().write(static_cast<int>(i), values);
    }
  }
  Session::Pending step(const PackedBatch& batch) {
    StepScalars scalars;
    scalars.learning_rate = 1e-3;
    scalars.update_step = scalars.adam_step = ++steps;
    return session->step(batch, scalars);
  }
  std::unique_ptr<TaskModel> model;
  std::unique_ptr<Session> session;
  int64_t steps = 0;
};

/// Sets a variable while it lives.
struct Variable {
  const char* name;
  Variable(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Variable() { unsetenv(name); }
};

class Mlx : public testing::Test {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(kMlxDevice); }
};

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
  bindings.states["x"] = mlx->allocate(16, Memory::kDevice).value();
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

TEST_F(Mlx, MemoryStaysWhereItIsOverAThousandStepsOfRandomLengths) {
  const auto mlx = open_device(kMlxDevice);
  Training training(*mlx, DType::f32, tiny_config());
  uint32_t draw = 1;
  const auto length = [&] { return 1 + static_cast<int>((draw = draw * 1664525u + 1013904223u) >> 25); };
  const PackedBatch last = batch_of({100, 20}, 128);
  const auto live_after = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::vector<int> lengths{length(), length()};
      training.session->collect(training.step(batch_of(lengths, (lengths[0] + lengths[1] + 63) / 64 * 64)));
    }
    for (int i = 0; i < Executable::kRing; ++i) training.session->collect(training.step(last));
    training.session->parameters().read_state("parameters");
    return *live_device_bytes(kMlxDevice);
  };
  for (int tokens = 64; tokens <= 256; tokens += 64)  // every program, its ring full
    for (int i = 0; i < Executable::kRing; ++i)
      training.session->collect(training.step(batch_of({tokens / 2, tokens / 2}, tokens)));
  const uint64_t before = live_after(10);
  EXPECT_EQ(live_after(1000), before);
  EXPECT_LE(training.session->programs().size(), 4u);
  EXPECT_LE(*compiled_functions(kMlxDevice), 4 * 4u);  // rows padded to 32, 64, 96 and 128 tokens
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

/// What a step takes, foreseen and found.
struct StepMemory {
  double foreseen, found;
};
StepMemory step_memory(Backend& mlx, const ModelConfig& config, const std::vector<int>& lengths,
                       int64_t recompute_every = 0, int longest = 0, int steps = 1) {
  Training training(mlx, DType::f32, config, recompute_every);
  training.session->programs().expect_rows(ProgramCache::Rows::kTrained, longest);
  const PackedBatch batch = batch_of(lengths, std::accumulate(lengths.begin(), lengths.end(), 0));
  const Work work{ProgramKind::kStep, {batch.tokens, batch.rows}};
  const double foreseen = static_cast<double>(training.session->programs().memory_need({&work, 1}).total());
  const uint64_t before = *live_device_bytes(kMlxDevice), most = *peak_device_bytes(kMlxDevice);
  for (int i = 0; i < steps; ++i) training.session->collect(training.step(batch));
  EXPECT_GT(*peak_device_bytes(kMlxDevice), most) << "the peak was that of an earlier step";
  return {foreseen, static_cast<double>(*peak_device_bytes(kMlxDevice) - before)};
}

/// How far MLX is ahead of what it computes, and so what it takes, is as its threads get cores: half as much
/// with them for itself.
void expect_foreseen(const StepMemory& memory, const std::string& what) {
  ::testing::Test::RecordProperty(what, fmt::format("{} foreseen, found {}", memory.foreseen, memory.found));
  EXPECT_GE(memory.foreseen, memory.found) << what;
  EXPECT_LE(memory.foreseen, 2.2 * memory.found) << what;
}

ModelConfig six_layers(int64_t width, int64_t heads, double dropout) {
  ModelConfig config = tiny_config();
  config.num_hidden_layers = 6;
  config.num_attention_heads = heads;
  config.hidden_size = width;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = config.classifier_dropout = dropout;
  return config;
}

/// The first has less under way at once than those that follow.
constexpr int kSteps = 4;

TEST_F(Mlx, MemoryOfAStepIsForeseenWithItsMasks) {
  const auto mlx = open_device(kMlxDevice);
  // Half of the longest row is the mean, as the plan takes it to be.
  for (const double dropout : {0.0, 0.1})
    expect_foreseen(step_memory(*mlx, six_layers(32, 8, dropout), {256, 128, 64, 64}, 0, 0, kSteps),
                    fmt::format("dropout {}", dropout));
}

/// Rows that are as long as any, rows that are padded, and one among rows that are much shorter: squares of
/// the length are most of what a step takes.  Those that take least come first, for a peak is the process's.
TEST_F(Mlx, MemoryOfAStepIsForeseenByTheLongestRowThatMayCome) {
  const auto mlx = open_device(kMlxDevice);
  std::vector<int> one_long(8, 8);
  one_long[3] = 256;
  const std::vector<int> equal(4, 128), padded(4, 130);
  const std::vector<int> fewer(one_long.begin(), one_long.begin() + 6);
  const auto narrow = [](double dropout) { return six_layers(32, 8, dropout); };
  const std::vector<std::pair<ModelConfig, std::vector<int>>> cases{
      {narrow(0), equal},  {narrow(0), padded},  {narrow(0), fewer},
      {narrow(.1), equal}, {narrow(.1), padded}, {narrow(.1), one_long}};
  for (const auto& [config, lengths] : cases) {
    const int longest = *std::ranges::max_element(lengths);
    expect_foreseen(
        step_memory(*mlx, config, lengths, 0, longest, kSteps),
        fmt::format("{} rows up to {}, dropout {}", lengths.size(), longest, config.hidden_dropout_prob));
  }
}

/// What a first step throws.
Error error_of_a_step(Backend& mlx) {
  Training training(mlx);
  try {
    training.step(batch_of({5, 9}, 64));
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "it ran";
  return {ErrorCode::kInternal, ""};
}

constexpr const char* kShare = "PYTORCH_MPS_HIGH_WATERMARK_RATIO";

TEST_F(Mlx, TheMemoryThatARunMayTakeIsSetAsForPyTorch) {
  const auto free_with = [&](const char* share) {
    const Variable set(kShare, share);
    return open_device(kMlxDevice)->free_bytes();
  };
  const auto all = free_with("1"), half = free_with("0.5");
  ASSERT_TRUE(all && half);
  const auto live = static_cast<double>(*live_device_bytes(kMlxDevice));
  EXPECT_NEAR(static_cast<double>(*half) + live, (static_cast<double>(*all) + live) / 2, 4096);
  EXPECT_FALSE(free_with("0"));
  for (const char* wrong : {"much", "-1", "3", "nan"}) EXPECT_THROW((void)free_with(wrong), Error) << wrong;
  const Variable little(kShare, "0.000001");
  const Error error = error_of_a_step(*open_device(kMlxDevice));
  EXPECT_EQ(error.code(), ErrorCode::kMemory);
  EXPECT_NE(std::string(error.what()).find("out of memory: training on a batch of 2"), std::string::npos)
      << error.what();
  EXPECT_NE(std::string(error.what()).find("PYTORCH_MPS_HIGH_WATERMARK_RATIO above 1 allows more"),
            std::string::npos)
      << error.what();
  (void)free_with("1");  // MLX keeps its limits for this process
}

/// Where parameters are most of a step, it is its update that takes most: how much of it MLX has under way at
/// once is as its threads get cores, so that of several steps the most counts.
TEST_F(Mlx, MemoryOfAnUpdateIsForeseen) {
  const auto mlx = open_device(kMlxDevice);
  for (const int64_t width : {64, 128, 256})
    expect_foreseen(step_memory(*mlx, six_layers(width, 2, 0), {8, 8}, 0, 8, 8),
                    fmt::format("{} wide", width));
}

/// MLX computes equal parts of a graph once, and would keep what the backward pass shall compute anew.
TEST_F(Mlx, GradientCheckpointingSavesWhatIsForeseen) {
  const auto mlx = open_device(kMlxDevice);
  ModelConfig config = six_layers(32, 2, 0);
  config.intermediate_size = 128;
  config.max_position_embeddings = 32;
  const std::vector<int> lengths(64, 32);  // many tokens for so few parameters
  const StepMemory anew = step_memory(*mlx, config, lengths, 1), kept = step_memory(*mlx, config, lengths);
  const double foreseen = kept.foreseen - anew.foreseen, found = kept.found - anew.found;
  RecordProperty("found", std::to_string(anew.found) + " beside " + std::to_string(kept.found));
  RecordProperty("saved", std::to_string(foreseen) + " foreseen, found " + std::to_string(found));
  EXPECT_GT(foreseen, 0.2 * kept.foreseen);
  EXPECT_GE(found, 0.8 * foreseen);
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

/// Its operands lie in MLX's memory, and so do its results and what it works on.
TEST_F(Mlx, MemoryOfAnUpdateOnTheCpuIsForeseen) {
  const Variable mask("LATHE_MLX_MASK", "adamw"), on("LATHE_MPS_FALLBACK", "1");
  const auto mlx = open_device(kMlxDevice);
  expect_foreseen(step_memory(*mlx, six_layers(256, 2, 0), {8, 8}, 0, 8, 8), "the update on the CPU");
}

TEST_F(Mlx, MemoryOfGradientsAddedUpOnTheCpuIsForeseen) {
  const Variable mask("LATHE_MLX_MASK", "accumulate"), on("LATHE_MPS_FALLBACK", "1");
  const auto mlx = open_device(kMlxDevice);
  Training training(*mlx, DType::f32, six_layers(256, 2, 0));
  training.session->programs().expect_rows(ProgramCache::Rows::kTrained, 8);
  const PackedBatch batch = batch_of({8, 8}, 16);
  const Work work{ProgramKind::kAccumulate, {batch.tokens, batch.rows}};
  const double foreseen = static_cast<double>(training.session->programs().memory_need({&work, 1}).total());
  const uint64_t before = *live_device_bytes(kMlxDevice);
  for (int i = 0; i < 8; ++i) training.session->collect(training.session->accumulate(batch, {}));
  expect_foreseen({foreseen, static_cast<double>(*peak_device_bytes(kMlxDevice) - before)},
                  "accumulated on the CPU");
}

struct LimitedRun {
  DType dtype;
  ModelConfig config;
  std::vector<int> lengths;
  ProgramKind kind = ProgramKind::kStep;
  int64_t classes = 2;
};

/// With the limit at what is foreseen, where the run is just accepted: MLX is ahead of what it computes as
/// far as its limit, and beyond it takes what it cannot do without alone.
StepMemory limited_memory(const LimitedRun& run) {
  const PackedBatch batch = batch_of(run.lengths, std::accumulate(run.lengths.begin(), run.lengths.end(), 0));
  const Work work{run.kind, {batch.tokens, batch.rows}, true};
  const auto training_on = [&](Backend& device) {
    auto training = std::make_unique<Training>(device, run.dtype, run.config, 0, run.classes);
    for (const ProgramCache::Rows rows : {ProgramCache::Rows::kTrained, ProgramCache::Rows::kEvaluated})
      training->session->programs().expect_rows(rows, *std::ranges::max_element(run.lengths));
    return training;
  };
  const auto unlimited = open_device(kMlxDevice);
  auto planned = training_on(*unlimited);
  const double foreseen = static_cast<double>(planned->session->programs().memory_need({&work, 1}).total());
  const double limit = static_cast<double>(*live_device_bytes(kMlxDevice)) + foreseen + 4096;
  planned.reset();
  const Variable share(
      kShare, fmt::format("{}", limit / static_cast<double>(unlimited->info().memory_bytes)).c_str());
  const auto limited = open_device(kMlxDevice);
  const auto accepted = training_on(*limited);
  const uint64_t before = *live_device_bytes(kMlxDevice), most = *peak_device_bytes(kMlxDevice);
  std::vector<float> logits;
  for (int i = 0; i < 2; ++i)
    if (run.kind == ProgramKind::kStep)
      accepted->session->collect(accepted->step(batch));
    else
      accepted->session->evaluate(batch, logits);
  EXPECT_GT(*peak_device_bytes(kMlxDevice), most) << "the peak was that of an earlier step";
  return {foreseen, static_cast<double>(*peak_device_bytes(kMlxDevice) - before)};
}

/// The feed-forward network, most of such a step, and the loss over many classes: values of the forward pass
/// that the backward pass can compute anew are not kept, and what these ops work on is counted.
TEST_F(Mlx, ARunThatIsAcceptedKeepsToTheLimit) {
  ModelConfig deep = six_layers(32, 2, 0);
  deep.intermediate_size = 1024;
  const std::vector<int> rows(64, 16);
  for (const LimitedRun& run : {LimitedRun{DType::f32, tiny_config(), rows, ProgramKind::kEvaluate, 20000},
                                LimitedRun{DType::bf16, deep, rows}, LimitedRun{DType::f32, deep, rows}}) {
    const StepMemory memory = limited_memory(run);
    RecordProperty(fmt::format("{} {}", static_cast<int>(run.kind), name_of(run.dtype)),
                   fmt::format("{} foreseen, found {}", memory.foreseen, memory.found));
    EXPECT_LE(memory.found, 1.15 * memory.foreseen)
        << static_cast<int>(run.kind) << " " << name_of(run.dtype);
  }
}

/// Metal alone runs them: here they are offered to be chosen.
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
}  // namespace lathe
