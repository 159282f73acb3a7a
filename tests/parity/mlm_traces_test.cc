// Twenty updates of run_mlm with a tiny random model of each family, fp32, dropout 0, evaluations between
// them, and new weights: masks all the same, loss to 5e-6, gradient norm to 1e-5.  Golden files:
// tests/golden/README.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/data/lm/text_files.h"
#include "lathe/io/json_file.h"
#include "lathe/models/new_weights.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/trainer.h"
#include "tests/device_under_test.h"

namespace lathe::mlm_traces_test {
namespace {

const char* const kFamilies[] = {"bert", "roberta", "xlm_roberta", "distilbert", "modernbert"};

std::string folder_of(const std::string& family) { return source_path("tests/golden/mlm/") + family; }
nlohmann::json json_of(const std::string& family, const std::string& name) {
  return read_json(real_file_system(), folder_of(family) + "/" + name + ".json");
}

TokenizedDataset samples(const Tokenizer& tokenizer, const std::string& name, bool groups) {
  TextFiles file;
  read_text_files({source_path("tests/golden/mlm/") + name + ".txt"}, file);
  ThreadPool pool(2);
  TextRows rows = groups ? group_texts(tokenize_texts(file.texts, tokenizer, 0, pool), 16)
                         : tokenize_texts(texts_with_words(file.texts), tokenizer, 20, pool);
  return masked_lm_samples(std::move(rows.ids), std::move(rows.begins), {});
}

TrainingArguments arguments(bool accumulates) {
  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.per_device_eval_batch_size = 3;
  args.learning_rate = 1e-3;
  args.weight_decay = 0.01;
  args.max_steps = accumulates ? 6 : 20;
  args.gradient_accumulation_steps = accumulates ? 3 : 1;
  args.hf_compat_loss_scale = true;
  if (!accumulates) args.eval_strategy = "steps";
  args.eval_steps = 8;
  args.logging_steps = 1;
  args.save_strategy = "no";
  return args;
}

/// A family, and how samples are made or used.
using Stored = std::pair<std::string, std::string>;
std::vector<Stored> stored_traces() {
  std::vector<Stored> all{{"bert", "accumulated"}, {"modernbert", "accumulated"}};
  for (const char* family : {"bert", "roberta", "xlm_roberta", "distilbert", "modernbert"})
    for (const char* way : {"lines", "groups"}) all.emplace_back(family, way);
  return all;
}

class MlmTrace : public testing::TestWithParam<std::tuple<std::string, Stored>> {};

TEST_P(MlmTrace, LossesNormsAndEvaluationsAreTheTrainers) {
  const auto& [device, stored] = GetParam();
  const auto& [family, way] = stored;
  LATHE_NEEDS_DEVICE(device);
  const bool accumulates = way == "accumulated";
  const nlohmann::json trace = json_of(family, way);
  AutoModel model = from_pretrained(real_file_system(), folder_of(family), {masked_lm, {}, false});
  const TokenizedDataset train = samples(*model.tokenizer, "train", way == "groups"),
                         validation = samples(*model.tokenizer, "validation", way == "groups");
  size_t update = 0, evaluations = 0;
  TrainerHooks hooks;
  hooks.masks = std::make_shared<BatchMasks>(mask_rules(*model.tokenizer), 42);
  hooks.compute_metrics = [](const TokenizedDataset&, const Predictions& p) {
    return MetricValues{{"accuracy", static_cast<double>(p.correct) / static_cast<double>(p.counted)}};
  };
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    if (entry.contains("eval_loss")) {
      const nlohmann::json& wanted = trace.at("evaluation " + std::to_string(++evaluations));
      EXPECT_NEAR(entry["eval_loss"].get<double>(), wanted["loss"].get<double>(), 5e-6) << evaluations;
      EXPECT_NEAR(entry["eval_accuracy"].get<double>(), wanted["accuracy"].get<double>(), 1e-9);
    }
    if (!entry.contains("grad_norm")) return;
    ASSERT_LT(update, trace["grad_norms"].size());
    const size_t count = accumulates ? 3 : 1;
    double loss = 0;
    for (size_t i = 0; i < count && update * count + i < trace["losses"].size(); ++i)
      loss += trace["losses"][update * count + i].get<double>();
    const double norm = trace["grad_norms"][update];
    EXPECT_NEAR(entry["loss"].get<double>(), loss, 5e-6 * std::max(1.0, loss)) << "update " << update;
    EXPECT_NEAR(entry["grad_norm"].get<double>(), norm, 1e-5 * norm) << "update " << update;
    ++update;
  };
  const auto backend = open_device(device);
  Trainer trainer(*backend, model, arguments(accumulates), &train, &validation, hooks);
  EXPECT_TRUE(trainer.load_report().missing.empty());
  trainer.train();
  trainer.evaluate(validation);
  EXPECT_EQ(update, trace["grad_norms"].size());
  EXPECT_FALSE(trace.contains("evaluation " + std::to_string(evaluations + 1)));
}

INSTANTIATE_TEST_SUITE_P(Families, MlmTrace,
                         testing::Combine(testing::Values("cpu", "cuda", kMlxDevice),
                                          testing::ValuesIn(stored_traces())),
                         [](const auto& test) {
                           const Stored& stored = std::get<1>(test.param);
                           return std::get<0>(test.param) + "_" + stored.first + "_" + stored.second;
                         });

/// Under which name Lathe has one of transformers' parameters.
std::string own_name(const TaskModel& model, const std::string& name) {
  for (const TaskModel::Tie& tie : model.ties())
    if (tie.name == name) return tie.source;
  return name;
}

void expect_begins(const TaskModel& model, const std::map<std::string, std::vector<float>>& drawn,
                   const nlohmann::json& wanted) {
  EXPECT_FALSE(wanted.empty());
  for (const auto& [name, values] : wanted.items()) {
    const auto found = drawn.find(own_name(model, name));
    ASSERT_NE(found, drawn.end()) << name;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(found->second[i], values[i].get<double>(), 1e-6) << name << " " << i;
  }
}

TEST(MlmModels, HaveTheNamesOfTransformersAndStartAsThere) {
  for (const std::string family : kFamilies) {
    SCOPED_TRACE(family);
    const nlohmann::json facts = json_of(family, "model_facts");
    const AutoModel model = from_pretrained(real_file_system(), folder_of(family), {masked_lm, {}, false});
    std::vector<std::string> names, decayed;
    for (const nn::Parameter& p : model.model->parameters()) {
      names.push_back(p.name);
      if (p.decay) decayed.push_back(p.name);
    }
    std::vector<std::string> wanted, wanted_decayed;
    for (const std::string name : facts["parameters"]) wanted.push_back(own_name(*model.model, name));
    for (const std::string name : facts["decayed"]) wanted_decayed.push_back(own_name(*model.model, name));
    EXPECT_EQ(names, wanted);
    EXPECT_EQ(std::set<std::string>(decayed.begin(), decayed.end()),
              std::set<std::string>(wanted_decayed.begin(), wanted_decayed.end()));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, facts["checkpoint_keys"].get<std::vector<std::string>>());

    std::map<std::string, std::vector<float>> drawn;
    TorchGenerator generator(facts["seed"].get<uint64_t>());
    draw_from_scratch(*model.model, model.config, generator, [&](int index, std::span<const float> values) {
      drawn[model.model->parameters()[static_cast<size_t>(index)].name] = {values.begin(), values.end()};
    });
    EXPECT_EQ(drawn.size(), names.size());
    expect_begins(*model.model, drawn, facts["scratch"]);

    drawn.clear();
    TorchGenerator of_head(facts["seed"].get<uint64_t>());
    for (const nn::Parameter& p : model.model->parameters())
      if (!p.name.starts_with(model.model->base_prefix()))
        draw_new(p, *model.model, model.config, of_head, drawn[p.name]);
    expect_begins(*model.model, drawn, facts["new_head"]);
  }
}

/// With dropout: the last layer's masks of a token are the same whichever tokens are scored.
TEST(MlmModels, TokensThatAreNotScoredChangeNothing) {
  for (const auto& [family, dropout] :
       {std::pair{"bert", "hidden_dropout_prob=0.3,attention_probs_dropout_prob=0.2"},
        {"xlm_roberta", "hidden_dropout_prob=0.3,attention_probs_dropout_prob=0.2"},
        {"modernbert", "mlp_dropout=0.3,attention_dropout=0.2,embedding_dropout=0.1"}}) {
    SCOPED_TRACE(family);
    const std::string folder = folder_of(family);
    const AutoModel model = from_pretrained(real_file_system(), ModelFolders{folder, folder, folder, dropout},
                                            {masked_lm, {}, false});
    const TokenizedDataset data = samples(*model.tokenizer, "train", false);
    PackedBatch few;
    pack_batch(data, std::vector<int32_t>{3, 0, 7}, {.rounding = {32, 32}}, few);
    BatchMasks(mask_rules(*model.tokenizer), 1).mask(few, {8, 8});
    PackedBatch all = few;
    std::vector<int32_t> labels(static_cast<size_t>(all.tokens), -100), places(labels.size());
    for (size_t i = 0; i < static_cast<size_t>(few.real_scored); ++i)
      labels[static_cast<size_t>(std::as_const(few.tensors).ints("scored_index")[i])] =
          std::as_const(few.tensors).ints("labels")[i];
    std::iota(places.begin(), places.end(), 0);
    all.tensors.ints("labels", Extent::kScored) = labels;
    all.tensors.ints("scored_index", Extent::kScored) = places;
    all.scored = all.tokens;
    const auto backend = open_device("cpu");
    const auto outcome = [&](const PackedBatch& batch) {
      Session session(*backend, *model.model, {});
      initialize(session.parameters(), model, 42);
      return session.collect(session.step(batch, {.learning_rate = 0, .update_step = 5}));
    };
    const Session::Outcome of_few = outcome(few), of_all = outcome(all);
    EXPECT_NEAR(of_few.loss, of_all.loss, 2e-6);
    EXPECT_NEAR(of_few.grad_norm, of_all.grad_norm, 1e-5 * of_all.grad_norm);
  }
}

}  // namespace
}  // namespace lathe::mlm_traces_test
