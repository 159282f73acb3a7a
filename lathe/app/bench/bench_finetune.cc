// lathe bench finetune: the Trainer on a thousand questions, all weights and only the head.
#include <fmt/format.h>

#include "lathe/app/bench/bench_data.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/models/family.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

/// Learning rates for trained weights, for a head on a frozen base, and for weights that start at random.
constexpr double kFineTuning = 5e-5, kHeadAlone = 5e-3, kFromScratch = 5e-4;

struct Data {
  Questions questions;
  TokenizedDataset train, heldout;
};

AutoModel make_model(const BenchSettings& s, const Questions& questions) {
  AutoModel model =
      bench_model(s.model, questions.train.label_set.names, {.weights = true, .tokenizer = true});
  if (model.tokenizer) return model;
  Tokenizer tokenizer = bench_tokenizer(s.data_dir, questions);
  ModelConfig config = model.config;
  config.vocab_size = tokenizer.vocab_size();
  return from_config(config, {single_label, questions.train.label_set.names}, std::move(tokenizer));
}

TrainingArguments arguments(const BenchSettings& s, const std::string& dtype, bool head_only) {
  TrainingArguments args;
  args.per_device_train_batch_size = s.batches().at(0);
  args.per_device_eval_batch_size = 64;
  args.num_train_epochs = s.epochs;
  args.learning_rate = head_only ? kHeadAlone : is_bench_shape(s.model) ? kFromScratch : kFineTuning;
  args.bf16 = dtype == "bf16";
  args.fp16 = dtype == "fp16";
  args.fp8 = dtype == "fp8";
  args.freeze_base_model = head_only;
  args.save_strategy = "no";
  args.logging_strategy = "no";
  validate(args);
  return args;
}

/// Matrix products of all epochs, without the head's.  A frozen base only runs forward, and only once if it
/// has no dropout.
double training_flops(const AutoModel& model, const TokenizedDataset& train, double epochs, bool head_only) {
  const std::vector<int32_t> lengths = train.lengths();
  const double passes = model.model->base_dropout() > 0 ? epochs : 1;
  return (head_only ? passes : 3 * epochs) * forward_flops(model.config, lengths);
}

void add_run(const BenchSettings& s, const BenchDevice& device, const std::string& dtype, const Data& data,
             bool head_only, BenchReport& report) {
  AutoModel model = make_model(s, data.questions);
  const auto backend = open_device(device.kind, {device.threads});
  TrainerHooks hooks;
  hooks.compute_metrics = [](const TokenizedDataset& heldout, const Predictions& p) {
    return MetricValues{{"accuracy", accuracy(best_classes(p), heldout.tensors.ints("labels"))}};
  };
  const TrainingArguments args = arguments(s, dtype, head_only);
  Trainer trainer(*backend, model, args, &data.train, &data.heldout, hooks);
  const TrainOutput output = trainer.train();
  const nlohmann::json evaluation = trainer.evaluate(data.heldout);
  nlohmann::ordered_json row = bench_row("finetune", device, s.model, dtype);
  row["trained"] = head_only ? "head" : "all";
  row["batch"] = s.batches().at(0);
  row["samples"] = data.train.size();
  row["epochs"] = s.epochs;
  row["learning_rate"] = args.learning_rate;
  row["data"] = data.questions.origin;
  const double seconds = output.metrics.at("train_runtime");
  const auto updates = static_cast<double>(output.global_step);
  const double ms = 1e3 * seconds / updates;
  add_speed(row, {ms, ms, static_cast<int>(output.global_step)},
            training_flops(model, data.train, s.epochs, head_only) / updates, device,
            bench_dtype(dtype, {"fp8"}));
  row.erase("min_ms");
  row["seconds"] = six_digits(seconds);
  row["samples_per_s"] = six_digits(output.metrics.at("train_samples_per_second"));
  row["tokens_per_s"] = six_digits(s.epochs * static_cast<double>(data.train.tokens()) / seconds);
  row["train_loss"] = six_digits(output.training_loss);
  row["accuracy"] = six_digits(evaluation.at("eval_accuracy"));
  report.rows.push_back(std::move(row));
}

}  // namespace

std::vector<BenchReport> bench_finetune(const BenchSettings& s) {
  for (const std::string& dtype : s.dtypes()) (void)bench_dtype(dtype, {"fp8"});
  Data data;
  data.questions = bench_questions(s.data_dir);
  {
    const AutoModel model = make_model(s, data.questions);
    check_seq(s, model);
    ThreadPool pool(s.threads);
    data.train = tokenize_dataset(data.questions.train, *model.tokenizer, s.seq, pool);
    data.heldout = tokenize_dataset(data.questions.heldout, *model.tokenizer, s.seq, pool);
  }
  BenchReport report{
      fmt::format("finetune: {} on {} questions ({}), {} epochs of batch {}", s.model, data.train.size(),
                  data.questions.origin == "trec" ? "TREC" : "made by a grammar", s.epochs,
                  s.batches().at(0)),
      {fmt::format("accuracy on {} others", data.heldout.size())},
      {{"device", "device"},
       {"dtype", "dtype"},
       {"trained", "trained"},
       {"seconds", "seconds", 2},
       {"ms", "ms an update", 1},
       {"samples_per_s", "samples/s", 1},
       {"tokens_per_s", "tokens/s", 0},
       {"flops_per_s", "TFLOP/s", 3, 1e-12},
       {"percent_of_peak", "% of peak", 1},
       {"train_loss", "loss", 4},
       {"accuracy", "accuracy", 4},
       {"peak_memory_bytes", "memory GiB", 2, 1.0 / (1 << 30)}},
      {},
      {"samples/s", {"device", "dtype", "trained"}, {"samples_per_s", "samples/s", 1}}};
  for (const BenchDevice& device : bench_devices(s, true)) {
    report.notes.push_back(device.note());
    for (const std::string& dtype : s.dtypes())
      for (const bool head_only : {false, true}) add_run(s, device, dtype, data, head_only, report);
  }
  return {report};
}

}  // namespace lathe
