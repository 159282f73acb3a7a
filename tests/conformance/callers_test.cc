// A device that several threads of the caller share gives each the numbers that it gives a single one.
#include <gtest/gtest.h>

#include <thread>

#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/trainer.h"
#include "tests/conformance/made_batch.h"
#include "tests/device_under_test.h"

namespace lathe::callers_test {
namespace {

class Callers : public testing::TestWithParam<const char*> {};

/// The losses of three updates of a model with this hidden size, and of an evaluation after them.
std::vector<double> losses(Backend& device, int hidden) {
  ModelConfig config;
  config.vocab_size = 40, config.hidden_size = hidden, config.num_hidden_layers = 2;
  config.num_attention_heads = 4, config.intermediate_size = 2 * hidden, config.max_position_embeddings = 32;
  AutoModel model = from_config(config, {single_label, {"a", "b"}}, std::nullopt);
  const TestFolder folder;
  TrainingArguments args;
  args.output_dir = folder.path();
  args.learning_rate = 1e-2;
  args.max_steps = 3, args.logging_steps = 1, args.save_strategy = "no";
  const TokenizedDataset rows = made_samples(24);
  Trainer trainer(device, model, args, &rows, &rows);
  trainer.train();
  std::vector<double> all;
  for (const auto& entry : trainer.state().log_history)
    if (entry.contains("loss")) all.push_back(entry["loss"]);
  all.push_back(trainer.evaluate(rows).at("eval_loss"));
  return all;
}

TEST_P(Callers, TakeTurns) {
  LATHE_NEEDS_DEVICE(GetParam());
  const auto device = open_device(GetParam(), {.threads = 2});
  std::vector<std::vector<double>> found(3);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < found.size(); ++i)  // each compiles programs of its own
    callers.emplace_back([&, i] { found[i] = losses(*device, 32 * static_cast<int>(i + 1)); });
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].size(), 4u);
    EXPECT_EQ(found[i], losses(*device, 32 * static_cast<int>(i + 1))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Callers, devices_under_test(),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lathe::callers_test
