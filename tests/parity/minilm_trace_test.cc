// The first 50 updates of the Hugging Face Trainer on MRPC with MiniLM, fp32, dropout 0: loss to 5e-6,
// gradient norm to 1e-5.  Two right runs of the real packages differ by 2.2e-7 and 5.3e-7; tanh-GELU or
// another eps by 5e-5. Golden files: tests/golden/README.md.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/data/test_data.h"
#include "lathe/io/json_file.h"
#include "lathe/io/testdata.h"
#include "lathe/train/trainer.h"
#include "tests/device_under_test.h"

namespace lathe::minilm_trace_test {
namespace {

/// A device, and the name of a trace.
class MiniLmTrace : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(MiniLmTrace, LossAndGradientNormEqualTheTrainers) {
  const auto& [device, trace] = GetParam();
  LATHE_NEEDS_DEVICE(device);
  if (device == "mlx" && std::getenv("LATHE_TEST_SLOW_DEVICES") == nullptr)
    GTEST_SKIP() << "minutes on MLX's build for the CPU: tests/slow/mlx_trace_test.py runs it";
  FileSystem& fs = real_file_system();
  const std::string model_folder = test_model_folder("all-MiniLM-L6-v2");
  const std::string train_file = test_data_dir() + "/glue/MRPC/train.tsv";
  if (!fs.exists(model_folder + "/model.safetensors")) GTEST_SKIP() << "needs tools/fetch_test_model.sh";
  if (!fs.exists(train_file)) GTEST_SKIP() << "needs ../shared/data or LATHE_DATA_DIR";
  const std::string golden_path = source_path("tests/golden/minilm_mrpc/") + trace + ".json";
  const nlohmann::json golden = read_json(fs, golden_path), settings = golden["settings"];

  TrainingArguments args;
  args.per_device_train_batch_size = settings["per_device_train_batch_size"];
  args.learning_rate = settings["learning_rate"];
  args.weight_decay = settings["weight_decay"];
  args.gradient_accumulation_steps = settings["gradient_accumulation_steps"];
  args.warmup_steps = settings["warmup_steps"];
  args.max_grad_norm = settings["max_grad_norm"];
  args.num_train_epochs = settings["num_train_epochs"];
  args.seed = settings["seed"];
  args.logging_steps = 1;
  args.save_strategy = "no";

  nlohmann::json config = read_json(fs, model_folder + "/config.json");
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0;
  AutoModel model =
      from_config(parse_model_config(config, "config.json"), {single_label, {"not_equivalent", "equivalent"}},
                  Tokenizer::load(model_folder));
  model.checkpoint = open_checkpoint(fs, model_folder);
  ThreadPool pool(2);
  const TokenizedDataset train =
      tokenize_dataset(read_glue_file(glue_task("mrpc"), train_file), *model.tokenizer, 128, pool);
  const auto backend = open_device(device);

  size_t step = 0;
  TrainerHooks hooks;
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    const double loss = golden["losses"][step], norm = golden["exact_grad_norms"][step];
    EXPECT_NEAR(entry["loss"].get<double>(), loss, 5e-6) << "update " << step;
    EXPECT_NEAR(entry["grad_norm"].get<double>(), norm, 1e-5 * norm) << "update " << step;
    EXPECT_DOUBLE_EQ(entry["learning_rate"].get<double>(), golden["learning_rates"][step].get<double>());
    ++step;
  };
  hooks.should_stop = [&] { return step == golden["losses"].size(); };
  Trainer trainer(*backend, model, args, &train, nullptr, hooks);
  const auto head = trainer.session().parameters().read(model.model->find("classifier.weight"));
  for (size_t i = 0; i < golden["classifier_weight"].size(); ++i)
    EXPECT_NEAR(head[i], golden["classifier_weight"][i].get<double>(), 1e-8) << "new head, element " << i;
  EXPECT_THROW(trainer.train(), Error);  // stopped after the stored updates, without a folder to save to
  EXPECT_EQ(step, golden["losses"].size());
  EXPECT_EQ(trainer.state().max_steps, golden["max_steps"].get<int64_t>());
}

INSTANTIATE_TEST_SUITE_P(Mrpc, MiniLmTrace,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::Values("plain", "accumulation")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace lathe::minilm_trace_test
