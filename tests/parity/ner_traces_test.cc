// Twenty updates of run_ner with a tiny random model of each family and a new head, fp32, dropout 0: samples
// and labels all the same, loss to 5e-6, gradient norm to 1e-5, the same tags at the end.  Golden files:
// tests/golden/README.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/data/words/word_samples.h"
#include "lathe/io/json_file.h"
#include "lathe/train/trainer.h"
#include "tests/device_under_test.h"

namespace lathe::ner_traces_test {
namespace {

/// A device, a family, and which tokens have labels.
class NerTrace : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

struct Sentences {
  TokenizedDataset samples;
  std::vector<std::vector<LabelledToken>> scored;
};

TEST_P(NerTrace, LabelsLossesAndNormsAreTheTrainers) {
  const auto& [device, family, kind] = GetParam();
  LATHE_NEEDS_DEVICE(device);
  FileSystem& fs = real_file_system();
  const std::string own = source_path("tests/golden/ner/"), shared = source_path("tests/golden/mlm/");
  const nlohmann::json golden = read_json(fs, own + family + ".json"), &trace = golden[kind];
  const std::string tokenizer = shared + (family == "electra"     ? "bert"
                                          : family == "camembert" ? "xlm_roberta"
                                                                  : family);
  const std::string weights = (fs.is_directory(own + family) ? own : shared) + family;
  const TagLabels labels(golden["labels"].get<std::vector<std::string>>());
  AutoModel model =
      from_pretrained(fs, ModelFolders{weights, weights, tokenizer}, {token_labels, labels.names(), false});
  model.tokenizer = load_words_tokenizer(tokenizer, model.config.model_type);

  ThreadPool pool(2);
  const auto read = [&](const char* name) {
    const WordTable table = read_words({own + name + ".conll"});
    const LabelledSentences labelled =
        label_sentences(*model.tokenizer, table, tag_ids(table, labels), labels,
                        {.max_length = 20, .label_all_tokens = kind == "all_tokens"}, pool);
    return Sentences{word_samples(labelled, *model.tokenizer), scored_tokens(labelled)};
  };
  EXPECT_EQ(choose_tag_labels(read_words({own + "train.conll"}), {}).names(), labels.names());
  const Sentences train = read("train"), dev = read("dev");
  const nlohmann::json& samples = golden[kind + "_samples"];
  ASSERT_EQ(train.samples.size(), static_cast<int64_t>(samples.size()));
  const std::vector<int32_t>& of_tokens = train.samples.tensors.ints("labels");
  for (int64_t i = 0; i < train.samples.size(); ++i) {
    const auto ids = train.samples.ids(i);
    const auto begin = of_tokens.begin() + train.samples.begins[static_cast<size_t>(i)];
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), samples[i][0].get<std::vector<int32_t>>()) << i;
    EXPECT_EQ(std::vector<int32_t>(begin, begin + std::ssize(ids)), samples[i][1].get<std::vector<int32_t>>())
        << i;
  }

  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.per_device_eval_batch_size = 3;
  args.learning_rate = 1e-3;
  args.weight_decay = 0.01;
  args.max_steps = 20;
  args.logging_steps = 1;
  args.save_strategy = "no";
  size_t step = 0;
  TrainerHooks hooks;
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    if (!entry.contains("grad_norm")) return;
    ASSERT_LT(step, trace["losses"].size());
    const double loss = trace["losses"][step], norm = trace["grad_norms"][step];
    EXPECT_NEAR(entry["loss"].get<double>(), loss, 5e-6) << "update " << step;
    EXPECT_NEAR(entry["grad_norm"].get<double>(), norm, 1e-5 * norm) << "update " << step;
    ++step;
  };
  const auto backend = open_device(device);
  Trainer trainer(*backend, model, args, &train.samples, nullptr, hooks);
  const auto head = trainer.session().parameters().read(model.model->find("classifier.weight"));
  for (size_t i = 0; i < trace["classifier_weight"].size(); ++i)
    EXPECT_NEAR(head[i], trace["classifier_weight"][i].get<double>(), 1e-7) << "new head, element " << i;
  trainer.train();
  EXPECT_EQ(step, trace["losses"].size());
  const Predictions p = trainer.predict(dev.samples);
  EXPECT_NEAR(p.loss, trace["eval_loss"].get<double>(), 5e-6);
  EXPECT_EQ(found_tags(dev.scored, best_classes(p)), trace["predictions"].get<TagIds>());
}

INSTANTIATE_TEST_SUITE_P(Families, NerTrace,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::Values("bert", "roberta", "xlm_roberta", "camembert",
                                                          "distilbert", "electra", "modernbert"),
                                          testing::Values("first_tokens", "all_tokens")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_" +
                                  std::get<2>(test.param);
                         });

}  // namespace
}  // namespace lathe::ner_traces_test
