// Twenty updates of run_swag with a tiny random model of each family and a new head, fp32, dropout 0:
// samples, new weights and the order of the parameters all the same, loss to 5e-6, gradient norm to 1e-5 (or
// 2e-6), after the training loss and logits to 2e-5.  The gradient of a bias that moves all scores of a
// sample alike is only rounding: the score's own, and those of a layer before it.  Adam's epsilon is 1e-5,
// since with the usual one it makes whole steps of them; and of logits the differences are compared.
// Golden files: tests/golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/data/own/choice_table.h"
#include "lathe/io/json_file.h"
#include "lathe/train/trainer.h"
#include "tests/device_under_test.h"

namespace lathe::swag_traces_test {
namespace {

/// A device and a family.
class SwagTrace : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TrainingArguments arguments() {
  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.per_device_eval_batch_size = 3;
  args.learning_rate = 1e-3;
  args.adam_epsilon = 1e-5;
  args.weight_decay = 0.01;
  args.max_steps = 20;
  args.logging_steps = 1;
  args.save_strategy = "no";
  return args;
}

/// Four rows of tokens for each sample.
void expect_samples(const TokenizedDataset& data, const nlohmann::json& golden) {
  ASSERT_EQ(data.size(), static_cast<int64_t>(golden.size()));
  ASSERT_EQ(data.rows(), 4 * data.size());
  for (int64_t i = 0; i < data.size(); ++i) {
    std::vector<int32_t> ids;
    for (const auto& row : golden[i])
      for (const auto& id : row) ids.push_back(id.get<int32_t>());
    const auto found = data.ids(i);
    EXPECT_EQ(std::vector<int32_t>(found.begin(), found.end()), ids) << i;
  }
}

TEST_P(SwagTrace, SamplesNewWeightsLossesAndLogitsAreTheTrainers) {
  const auto& [device, family] = GetParam();
  LATHE_NEEDS_DEVICE(device);
  FileSystem& fs = real_file_system();
  const std::string golden = source_path("tests/golden/"), own = golden + "swag/";
  const nlohmann::json trace = read_json(fs, own + family + ".json");
  const std::string tokenizer = golden + "mlm/" +
                                (family == "electra"     ? "bert"
                                 : family == "camembert" ? "xlm_roberta"
                                                         : family);
  const std::string of_ner = golden + "ner/" + family;
  const std::string weights = fs.is_directory(of_ner) ? of_ner : golden + "mlm/" + family;
  ModelFolders folders{weights, weights, tokenizer};
  folders.config_overrides = "initializer_range=0.2";
  if (family == "electra") folders.config_overrides += ",summary_last_dropout=0";
  AutoModel model = from_pretrained(fs, folders, {multiple_choice, {}, false});

  ThreadPool pool(2);
  const auto read = [&](const char* name) {
    return tokenize_choices(read_choices({own + name + ".csv"}, {.labels_needed = true}), *model.tokenizer,
                            24, pool);
  };
  const TokenizedDataset train = read("train"), dev = read("dev");
  expect_samples(train, trace["samples"]);

  size_t step = 0;
  TrainerHooks hooks;
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    if (!entry.contains("grad_norm")) return;
    ASSERT_LT(step, trace["losses"].size());
    const double loss = trace["losses"][step], norm = trace["grad_norms"][step];
    EXPECT_NEAR(entry["loss"].get<double>(), loss, 5e-6) << "update " << step;
    EXPECT_NEAR(entry["grad_norm"].get<double>(), norm, std::max(1e-5 * norm, 2e-6)) << "update " << step;
    ++step;
  };
  const auto backend = open_device(device);
  Trainer trainer(*backend, model, arguments(), &train, nullptr, hooks);
  std::vector<std::string> names;
  for (const nn::Parameter& p : model.model->parameters()) names.push_back(p.name);
  EXPECT_EQ(names, trace["parameters"].get<std::vector<std::string>>());
  for (const auto& [name, wanted] : trace["new_weights"].items()) {
    const auto values = trainer.session().parameters().read(model.model->find(name));
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(values[i], wanted[i].get<double>(), 1e-7) << name << " " << i;
  }
  trainer.train();
  EXPECT_EQ(step, trace["losses"].size());
  const Predictions p = trainer.predict(dev);
  EXPECT_NEAR(p.loss, trace["eval_loss"].get<double>(), 2e-5);
  ASSERT_EQ(p.begins, dev.first_rows);
  for (int64_t i = 0; i < dev.size(); ++i)
    for (int64_t row = 1; row < 4; ++row)
      EXPECT_NEAR(p.logits[static_cast<size_t>(4 * i + row)] - p.logits[static_cast<size_t>(4 * i)],
                  trace["logits"][i][row].get<double>() - trace["logits"][i][0].get<double>(), 2e-5)
          << "sample " << i;
}

INSTANTIATE_TEST_SUITE_P(Families, SwagTrace,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::Values("bert", "roberta", "xlm_roberta", "camembert",
                                                          "distilbert", "electra", "modernbert")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace lathe::swag_traces_test
