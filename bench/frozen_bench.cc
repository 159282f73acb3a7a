// Training of a head alone on MRPC, the base's output kept and not kept in turns; the base's dropout is 0.
// Prints a JSON line per pair, seconds without evaluation.
//   frozen_bench MODEL_FOLDER TRAIN_TSV [epochs] [pairs] [bf16|fp32] [threads]
#include <fmt/format.h>

#include "lathe/backends/register.h"
#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/data/glue_tasks.h"
#include "lathe/io/json_file.h"
#include "lathe/train/trainer.h"

using namespace lathe;

namespace {

struct Timed {
  double seconds, loss;
};

Timed train(Backend& backend, const std::string& folder, const TokenizedDataset& data,
            const TrainingArguments& args, bool keep) {
  nlohmann::json config = read_json(real_file_system(), folder + "/config.json");
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0;
  config["classifier_dropout"] = 0.1;
  AutoModel model = from_config(parse_model_config(config, "config.json"),
                                {Problem::kSingleLabel, {"0", "1"}}, std::nullopt);
  model.checkpoint = open_checkpoint(real_file_system(), folder);
  Trainer trainer(backend, model, args, &data, nullptr);
  trainer.keep_base_output(keep);
  const TrainOutput output = trainer.train();
  return {output.metrics["train_runtime"], output.training_loss};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3)
      fail(ErrorCode::kUsage, "frozen_bench MODEL_FOLDER TRAIN_TSV [epochs] [pairs] [bf16|fp32] [threads]");
    const auto word = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
    TrainingArguments args;
    args.freeze_base_model = true;
    args.num_train_epochs = std::stod(word(3, "3"));
    args.bf16 = word(5, "fp32") == "bf16";
    args.per_device_train_batch_size = 32;
    args.save_strategy = "no";
    const auto backend = open_device("cpu", {std::stoi(word(6, "0"))});
    ThreadPool pool(default_threads());
    const TokenizedDataset data =
        tokenize_dataset(read_glue_file(glue_task("mrpc"), argv[2]), Tokenizer::load(argv[1]), 128, pool);
    for (int pair = 0; pair < std::stoi(word(4, "2")); ++pair) {
      const Timed every = train(*backend, argv[1], data, args, false),
                  kept = train(*backend, argv[1], data, args, true);
      fmt::print(
          R"({{"samples": {}, "epochs": {}, "dtype": "{}", "every_epoch_s": {:.2f}, "kept_s": {:.2f}, )"
          R"("ratio": {:.2f}, "loss": [{}, {}]}})"
          "\n",
          data.size(), args.num_train_epochs, word(5, "fp32"), every.seconds, kept.seconds,
          every.seconds / kept.seconds, every.loss, kept.loss);
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
