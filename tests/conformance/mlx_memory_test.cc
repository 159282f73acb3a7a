// The memory that a training on MLX takes: as foreseen, within its limit, and no more after many steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/conformance/mlx_testing.h"

namespace lathe::mlx_testing {
namespace {

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
/// far as its limit, and beyond it takes only what it cannot do without.
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

}  // namespace
}  // namespace lathe::mlx_testing
