// Fine-tunes a Hugging Face classifier on a file with texts and labels.
// usage: finetune MODEL_DIR train.csv dev.csv OUTPUT_DIR
#include <lathe/lathe.h>

#include <cstdio>

using namespace lathe;

MetricValues compute_metrics(const TokenizedDataset& data, const Predictions& predictions) {
  return {{"accuracy", accuracy(best_classes(predictions), data.tensors.ints("labels"))}};
}

int main(int argc, char** argv) try {
  if (argc != 5) fail(ErrorCode::kUsage, "usage: finetune MODEL_DIR train.csv dev.csv OUTPUT_DIR");
  const TextDataset train = read_own_file(argv[2]);
  const TextDataset dev = read_own_file(argv[3], &train.label_set);

  AutoModel model = from_pretrained(
      real_file_system(), argv[1],
      {.task = single_label, .labels = train.label_set.names, .ignore_mismatched_sizes = true});
  ThreadPool pool;
  const TokenizedDataset train_dataset = tokenize_dataset(train, *model.tokenizer, 128, pool);
  const TokenizedDataset eval_dataset = tokenize_dataset(dev, *model.tokenizer, 128, pool);

  TrainingArguments args;
  args.output_dir = argv[4];
  args.num_train_epochs = 3;
  args.per_device_train_batch_size = 32;
  args.learning_rate = 5e-5;
  args.eval_strategy = "epoch";
  args.logging_steps = 10;
  args.save_strategy = "no";
  args.bf16 = true;
  args.use_cpu = true;

  TrainerHooks hooks;
  hooks.compute_metrics = compute_metrics;
  hooks.on_log = [](const auto& entry) { std::printf("%s\n", log_line(entry).c_str()); };

  hf::Trainer trainer(model, args, train_dataset, eval_dataset, hooks);
  trainer.train();
  trainer.save_model(argv[4]);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return exit_code(error.code());
}
