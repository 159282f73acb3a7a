// Twenty updates of CrossEncoderTrainer with a tiny random model of two families and a new head by each of
// three losses, fp32, dropout 0: losses to 5e-6, gradient norms to 1e-5, after the training scores to 2e-5.
// Golden files: tests/golden/README.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/data/retrieval/pair_table.h"
#include "lathe/io/json_file.h"
#include "lathe/train/trainer.h"
#include "tests/device_under_test.h"

namespace lathe::rerank_traces_test {
namespace {

struct LossCase {
  const char* name;
  const char* label;
  MakeTask task;
  size_t scores;
};
constexpr LossCase kLosses[] = {{"BinaryCrossEntropyLoss", "label", pair_score, 1},
                                {"MSELoss", "score", pair_value, 1},
                                {"CrossEntropyLoss", "class", pair_class, 3}};

/// A device and a family.
class RerankTrace : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TrainingArguments arguments() {
  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.learning_rate = 1e-3;
  args.weight_decay = 0.01;
  args.max_steps = 20;
  args.logging_steps = 1;
  args.save_strategy = "no";
  return args;
}

TokenizedDataset read(const std::string& path, const LossCase& loss, const Tokenizer& tokenizer) {
  const PairTable pairs = read_pairs({path}, {.texts = {"query", "passage"}, .label = loss.label});
  TextDataset texts{.origin = pairs.origin, .first = pairs.first, .second = pairs.second};
  texts.labelled = true;
  if (loss.scores > 1) {
    texts.labels.assign(pairs.labels.begin(), pairs.labels.end());
  } else {
    texts.label_set.kind = LabelKind::kRegression;
    texts.targets.assign(pairs.labels.begin(), pairs.labels.end());
  }
  ThreadPool pool(2);
  return tokenize_dataset(texts, tokenizer, 24, pool);
}

void check(const std::string& device, const std::string& family, const LossCase& loss) {
  FileSystem& fs = real_file_system();
  const std::string golden = source_path("tests/golden/"), base = golden + "mlm/" + family;
  const nlohmann::json trace = read_json(fs, golden + "rerank/" + family + ".json")[loss.name];
  ModelFolders folders{base, base, base};
  folders.config_overrides = "initializer_range=0.2";
  std::vector<std::string> labels;
  for (size_t i = 0; i < loss.scores; ++i) labels.push_back("LABEL_" + std::to_string(i));
  AutoModel model = from_pretrained(fs, folders, {loss.task, labels, false});
  const TokenizedDataset train = read(golden + "rerank/train.csv", loss, *model.tokenizer);
  const TokenizedDataset dev = read(golden + "rerank/dev.csv", loss, *model.tokenizer);
  size_t step = 0;
  TrainerHooks hooks;
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    if (!entry.contains("grad_norm")) return;
    ASSERT_LT(step, trace["losses"].size());
    const double norm = trace["grad_norms"][step];
    EXPECT_NEAR(entry["loss"].get<double>(), trace["losses"][step].get<double>(), 5e-6) << "update " << step;
    EXPECT_NEAR(entry["grad_norm"].get<double>(), norm, 1e-5 * norm) << "update " << step;
    ++step;
  };
  const auto backend = open_device(device);
  Trainer trainer(*backend, model, arguments(), &train, nullptr, hooks);
  trainer.train();
  EXPECT_EQ(step, trace["losses"].size());
  const Predictions p = trainer.predict(dev);
  ASSERT_EQ(p.logits.size(), loss.scores * static_cast<size_t>(dev.size()));
  for (size_t i = 0; i < p.logits.size(); ++i) {
    const nlohmann::json& of_pair = trace["logits"][i / loss.scores];
    const double wanted = (of_pair.is_array() ? of_pair[i % loss.scores] : of_pair).get<double>();
    EXPECT_NEAR(p.logits[i], wanted, 2e-5) << "score " << i;
  }
}

TEST_P(RerankTrace, LossesNormsAndScoresAreTheTrainers) {
  const auto& [device, family] = GetParam();
  LATHE_NEEDS_DEVICE(device);
  for (const LossCase& loss : kLosses) {
    SCOPED_TRACE(loss.name);
    check(device, family, loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RerankTrace,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::Values("bert", "roberta")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace lathe::rerank_traces_test
