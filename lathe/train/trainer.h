#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lathe/engine/session.h"
#include "lathe/io/file_system.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/predictions.h"
#include "lathe/train/trainer_hooks.h"
#include "lathe/train/training_plan.h"

namespace lathe {

class BaseCache;
class Evaluator;
class MemoryMetrics;
class RunCheckpoints;
class RunLog;
class TrainingLoop;

struct TrainOutput {
  int64_t global_step = 0;
  double training_loss = 0;
  nlohmann::json metrics;  ///< train_runtime, train_samples_per_second, train_steps_per_second, total_flos,
                           ///< train_loss, epoch; num_input_tokens_seen where it is asked for
};

/// Fine-tunes a model as Hugging Face's Trainer does: order of the data, schedule, accumulation, clipping,
/// logging, evaluation, checkpoints, the best model, resuming, the loss scale of fp16.  With dropout 0 in
/// fp32 its losses are those of the Trainer on a CPU.  Where the backend has a process group, its ranks do
/// one run together, as Hugging Face's do under accelerate: each takes its share of every update's samples
/// and of an evaluation's, gets the same losses and metrics, and only rank 0 writes files.  `backend`,
/// `model` and the data sets must outlive it.  Trainers, each in its thread, may share a model, whose weights
/// lie in each of them; one that freezes its base needs one of its own (twin_of).  Those that train at once
/// need an output_dir each: hf::Trainer and the program refuse a second one, this class does not.  Errors:
/// kUsage, kNonFinite (a loss or gradient norm that is not finite, unless logging_nan_inf_filter is given;
/// with fp16 only where LossScaler::hopeless; the message names step and last checkpoint), kInterrupted, kIo.
class Trainer {
 public:
  /// Errors: those of validate_for_trainer, whose notices it does not tell, and of check_dataset; kUsage for
  /// arguments that do not fit the head, the data or the processes; kUnsupported for what the device lacks.
  Trainer(Backend& backend, AutoModel& model, const TrainingArguments& args,
          const TokenizedDataset* train_dataset, const TokenizedDataset* eval_dataset,
          TrainerHooks hooks = {}, FileSystem& fs = real_file_system());

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  using Plan = TrainingPlan;
  /// Errors: kUsage without training data.
  Plan plan() const;
  /// The same for train(resume_from): --auto_find_batch_size takes the batch size of the checkpoint.
  /// Errors: besides, those of read_trainer_state.
  Plan plan(const std::string& resume_from);

  /// `resume_from`: a checkpoint folder; empty: from the beginning, with the weights there are.  Checkpoints
  /// in output_dir of later steps than it begins at are renamed old-checkpoint-N.
  TrainOutput train(const std::string& resume_from = "");

  /// Keys with prefix: eval_loss, eval_<metric>, eval_runtime, eval_samples_per_second,
  /// eval_steps_per_second, epoch.  With --int8 they are those of 8-bit integers, and there are besides
  /// eval_int8_change_loss and eval_int8_change_<metric>: each less what it is without --int8.  So with
  /// --fp8.
  nlohmann::json evaluate(const TokenizedDataset& data, const std::string& prefix = "eval");
  /// The same of a test set, with the prefix "test" and without epoch.  It is no part of the log.
  /// Source: transformers' Trainer.predict.
  nlohmann::json test(const TokenizedDataset& data);
  /// Warns of samples without a prediction.
  Predictions predict(const TokenizedDataset& data);
  /// Whatever --int8 and --fp8 say, and without a warning.
  Predictions predict(const TokenizedDataset& data, nn::Quantization quantization);
  /// How alike predictions with and without 8-bit integers are, as a sentence.
  std::string compare(const Predictions& quantized, const Predictions& other) const;

  /// Weights, configuration and tokenizer into a folder, by rank 0.  Errors: kUsage where `folder` is empty.
  void save_model(const std::string& folder);
  /// Whether train has made all of its updates, even if it failed after them.
  bool finished() const;
  /// Whether train was asked to stop and has ended its update: what may fail then is the checkpoint.
  bool stopping() const;
  /// What save_model would have written into output_dir, had the last checkpoint not failed.  Of a run that
  /// stops it is the model of its last step, the best or not: that has a checkpoint.
  void save_model_alone();
  /// trainer_state.json into output_dir, by rank 0.
  void save_state();

  const TrainerState& state() const { return progress_.state; }
  /// Tokens, padding left out, that all ranks have trained on since they began, up to the last log line.
  int64_t trained_tokens() const;
  /// Seconds spent in `evaluate`, within a training or not.
  double evaluation_seconds() const;
  /// Length to which a padding trainer would fill rows; counts in total_flos only.  0: the longest of the
  /// batch.
  void pad_to(int length);
  /// As validate_for_trainer leaves them, but for the batch size that --auto_find_batch_size has found.
  const TrainingArguments& arguments() const { return args_; }
  /// Whether the output of a frozen base may be kept from epoch to epoch, as it is by default.  The result is
  /// the same, bit for bit, on devices that store activations in their dtype (`ref` computes on in double).
  void keep_base_output(bool keep) { keep_base_output_ = keep; }
  Session& session() { return *session_; }
  const TaskModel& model() const { return *model_.model; }
  const AutoModel& auto_model() const { return model_; }
  /// Which weights of the checkpoint were missing or not used.
  const LoadReport& load_report() const { return load_report_; }

 private:
  /// Checks and reads what the run goes on from, and brings `progress_` to its first step.
  Plan begin(const std::string& resume_from);
  /// All memory is there before the first step, or it is said what is missing.
  void reserve_memory(const Plan& plan, bool base_kept);
  /// What this run is, for the checkpoints of it.
  RunState facts(const Plan& plan) const;
  /// Keeps the outputs of a frozen base that this run can use, and says where it cannot; gives that for the
  /// training data.
  std::unique_ptr<BaseCache> keep_base_outputs(const Plan& plan);
  void run_updates(BaseCache* base);
  TrainOutput output(const Plan& plan, const MemoryMetrics& memory);
  ProcessGroup* group() const { return backend_.group(); }

  Backend& backend_;
  AutoModel& model_;
  TrainingArguments args_;
  const TokenizedDataset* train_;
  const TokenizedDataset* eval_;
  TrainerHooks hooks_;
  FileSystem& fs_;
  std::unique_ptr<Session> session_;
  RunProgress progress_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<TrainingLoop> loop_;  // of the last call of train
  bool keep_base_output_ = true;
  LoadReport load_report_;
};

}  // namespace lathe
