#include "lathe/report/model_card.h"

#include <gtest/gtest.h>

#include "lathe/core/source_folder_testing.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

const std::string kGolden = source_path("tests/golden/model_card/");

TEST(ModelCard, IsThatOfTheTrainer) {
  FileSystem& fs = real_file_system();
  TrainerState state;
  for (const auto& entry : nlohmann::ordered_json::parse(fs.read(kGolden + "history.json").value()))
    state.log_history.push_back(entry);
  TrainingArguments args;
  args.output_dir = "somewhere/mrpc-out";
  args.num_train_epochs = 2;
  args.learning_rate = 2e-5;
  args.warmup_steps = 20;
  args.per_device_train_batch_size = 16;
  args.gradient_accumulation_steps = 2;
  const CardFacts facts{.base_model = "bert-base-cased",
                        .on_hub = true,
                        .task = "text-classification",
                        .task_name = "Text Classification",
                        .language = "en",
                        .dataset = "GLUE MRPC",
                        .dataset_tag = "glue",
                        .dataset_args = "mrpc"};
  const std::string mine = model_card(facts, args, state, 1), theirs = fs.read(kGolden + "card.md").value();
  const auto before_versions = [](const std::string& text) {
    return text.substr(0, text.find("- Transformers"));
  };
  EXPECT_EQ(mine.substr(0, mine.find("- Lathe")), before_versions(theirs));
}

/// With --include_num_input_tokens_seen train_runtime is in every line of the log.
TEST(ModelCard, ShowsEvaluationsOfARunWhoseLogLinesHaveTheRuntime) {
  TrainerState state;
  using Json = nlohmann::ordered_json;
  state.log_history = {Json{{"loss", 0.75}, {"train_runtime", 1.5}, {"epoch", 1}, {"step", 3}},
                       Json{{"eval_loss", 0.5}, {"epoch", 1}, {"step", 3}},
                       Json{{"train_runtime", 2.5}, {"train_loss", 0.75}, {"epoch", 1}, {"step", 3}},
                       Json{{"eval_loss", 0.25}, {"epoch", 1}, {"step", 3}}};
  const std::string card = model_card({.base_model = "models/mine"}, {}, state, 1);
  const std::string table = card.substr(card.find("### Training results"));
  EXPECT_NE(table.find("| 0.75          | 1     | 3    | 0.5             |\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("0.25"), std::string::npos) << table;
}

/// Source: peft 0.21, PeftModel.create_or_update_model_card.
TEST(ModelCard, OfAnAdapterNamesItsBaseAsPeftDoes) {
  const std::string card =
      model_card({.base_model = "bert-base-cased", .on_hub = true, .adapter = true}, {}, {}, 1);
  EXPECT_TRUE(
      card.starts_with("---\nlibrary_name: peft\nbase_model: bert-base-cased\ntags:\n"
                       "- 'base_model:adapter:bert-base-cased'\n- generated_from_trainer\n- lora\n"
                       "- transformers\n"))
      << card;
  EXPECT_TRUE(model_card({.base_model = "models/mine", .adapter = true}, {}, {}, 1)
                  .starts_with("---\nlibrary_name: peft\ntags:\n- generated_from_trainer\n- lora\n"));
}

TEST(ModelCard, TellsTheTokensThatWereSeen) {
  TrainerState state;
  using Json = nlohmann::ordered_json;
  const Json entry = {{"eval_loss", 0.5}, {"epoch", 1}, {"num_input_tokens_seen", 742}, {"step", 3}};
  state.log_history = {entry, Json{{"train_loss", 0.75}, {"epoch", 1}, {"step", 3}}};
  const std::string card = model_card({.base_model = "models/mine"}, {}, state, 1);
  EXPECT_NE(card.find("\n- Loss: 0.5\n- Num Input Tokens Seen: 742\n"), std::string::npos) << card;
  EXPECT_NE(card.find("| Validation Loss | Input Tokens Seen |\n"), std::string::npos) << card;
  EXPECT_NE(card.find("| 0.5             | 742               |\n"), std::string::npos) << card;
}

TEST(ModelCard, NamesOfAnOptimizerWhatItHas) {
  TrainingArguments args;
  args.optim = "sgd";
  const auto has = [&](const std::string& line) {
    return model_card({.base_model = "models/mine"}, args, {}, 1).find(line) != std::string::npos;
  };
  EXPECT_TRUE(has(
      "- optimizer: Use OptimizerNames.SGD and the args are:\nNo additional optimizer arguments\n- lr_sch"));
  args.optim = "adafactor";
  args.optim_args = "decay_rate=-0.7";
  EXPECT_TRUE(has("- optimizer: Use OptimizerNames.ADAFACTOR and the args are:\ndecay_rate=-0.7\n"));
}

TEST(ModelCard, AModelOfAFolderOnOwnDataHasNoLinksAndNoResults) {
  TrainingArguments args;
  args.output_dir = "1e5";  // a number, to YAML
  const std::string card = model_card({.base_model = "models/mine"}, args, {}, 1);
  EXPECT_NE(card.find("- name: '1e5'\n  results: []\n---"), std::string::npos) << card;
  EXPECT_NE(card.find("a fine-tuned version of models/mine on an unknown dataset."), std::string::npos)
      << card;
  EXPECT_EQ(card.find("base_model"), std::string::npos);
  EXPECT_EQ(card.find("](https"), std::string::npos);
}

}  // namespace
}  // namespace lathe
