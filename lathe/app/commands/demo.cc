// lathe demo: the main job on data that the program carries.
#include "lathe/app/commands/demo.h"

#include <fmt/format.h>

#include "lathe/app/commands/script_run.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/text/visible_text.h"

namespace lathe {

Command predict_command();

namespace {

constexpr size_t kTrain = 3000, kHeldOut = 600;
constexpr uint64_t kDataSeed = 1;

ModelConfig demo_config(const Tokenizer& tokenizer) {
  ModelConfig config;
  config.vocab_size = tokenizer.vocab_size();
  config.hidden_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 256;
  config.max_position_embeddings = 64;
  config.pad_token_id = tokenizer.pad_id();
  return config;
}

struct DemoSettings : TrainingArguments {
  DemoSettings() {
    output_dir = "lathe_demo";
    overwrite_output_dir = do_train = do_eval = true;
    per_device_train_batch_size = 32;
    per_device_eval_batch_size = 64;
    learning_rate = 1e-3;
    num_train_epochs = 5;
    warmup_steps = 30;
    logging_steps = 50;
    save_strategy = "no";
    eval_strategy = "epoch";
  }
};

void classify_new_questions(const std::string& folder) {
  fmt::print("\nFive new questions, classified by lathe predict {}:\n", visible_line(folder));
  std::vector<std::string> words{folder};
  for (const DemoQuestion& question : demo_new_questions()) words.push_back(question.text);
  predict_command().run(words);
  fmt::print(
      "\nYour own model and data, e.g. a Hugging Face folder and a CSV file with the columns text and "
      "label:\n"
      "  lathe glue --model_name_or_path FOLDER --train_file train.csv --validation_file dev.csv \\\n"
      "    --do_train --do_eval --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 "
      "\\\n"
      "    --num_train_epochs 3 --output_dir my-model\n");
}

}  // namespace

TextDataset demo_dataset(const std::vector<DemoQuestion>& questions) {
  TextDataset data;
  data.origin = "demo";
  data.label_set.names = demo_labels();
  data.labelled = true;
  for (const DemoQuestion& question : questions) {
    data.first.push_back(question.text);
    data.labels.push_back(question.label);
  }
  return data;
}

Tokenizer demo_tokenizer() {
  const std::vector<NamedFile> files = {
      {"vocab.txt", demo_vocabulary()},
      {"tokenizer_config.json",
       R"({"do_lower_case": true, "model_max_length": 64, "tokenizer_class": "BertTokenizer"})"}};
  return Tokenizer::from_files(files, "the demo's tokenizer");
}

namespace {

int demo(DemoSettings& settings, const Call& call) {
  TrainingArguments& args = settings;
  validate(args);
  Terminal terminal(args);
  RunFacts facts{.words = {"lathe", "demo"}, .settings = to_json(bind(args))};
  facts.words.insert(facts.words.end(), call.args.begin(), call.args.end());
  ScriptRun run(terminal, args, std::move(facts));
  run.prepare_output();
  Backend& backend = run.open_device();
  const Tokenizer tokenizer = demo_tokenizer();
  AutoModel model = from_config(demo_config(tokenizer), {single_label, demo_labels(), false}, tokenizer);
  ThreadPool pool(static_cast<int>(args.threads));
  const TokenizedDataset train =
      tokenize_dataset(demo_dataset(demo_train(kTrain, kDataSeed)), tokenizer, 64, pool);
  const TokenizedDataset heldout =
      tokenize_dataset(demo_dataset(demo_heldout(kHeldOut, kDataSeed)), tokenizer, 64, pool);
  TrainerHooks hooks = run.hooks();
  hooks.compute_metrics = [](const TokenizedDataset& data, const Predictions& p) {
    return MetricValues{{"accuracy", accuracy(best_classes(p), data.tensors.ints("labels"))}};
  };
  hooks.should_stop = [] {
    if (stop_signal() != 0) fail(ErrorCode::kInterrupted, "interrupted; lathe demo begins anew");
    return false;
  };
  Trainer trainer(backend, model, args, &train, &heldout, hooks);
  run.carry_out([&] {
    run.train(trainer, "", train.size());
    const nlohmann::json metrics = run.evaluate(trainer, heldout, heldout.size());
    run.report("eval", metrics, metrics);
  });
  classify_new_questions(run.output_dir());
  return 0;
}

}  // namespace

Command demo_command() {
  using D = DemoSettings;
  return make_command<D>(
      {.name = "demo",
       .summary = "train a small BERT from scratch on questions that a grammar makes",
       .details =
           "Trains a small BERT from scratch on questions of six classes that a grammar makes, evaluates it "
           "on "
           "questions from templates it has not seen, writes a Hugging Face folder, and classifies five new "
           "questions from it."},
      {{shared_row("output_dir", "Folder that everything is written to."), &D::output_dir},
       {shared_row("device"), &D::device},
       {shared_row("threads"), &D::threads},
       {shared_row("bf16"), &D::bf16}},
      demo);
}

}  // namespace lathe
