#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lathe/engine/session.h"
#include "lathe/io/file_system.h"
#include "lathe/tasks/predictions.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
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
                           ///< train_loss, epoch; num_input_tokens_seen if requested
};

/// Fine-tunes a model as Hugging Face's Trainer does: order of the data, schedule, accumulation, clipping,
/// logging, evaluation, checkpoints, the best model, resuming, the loss scale of fp16.  With dropout 0 in
/// fp32 its losses are those of the Trainer on a CPU.
///
/// If the backend has a process group, its ranks do one run together, as with Hugging Face's accelerate.
/// Each rank takes its share of the samples of every update and evaluation, all get the same losses and
/// metrics, and only rank 0 writes files.
///
/// `backend`, `model` and the data sets must outlive it.  Trainers in several threads may share a model: each
/// holds its own weights.  A trainer that freezes its base needs its own model (twin_of).  Trainers that
/// train at the same time need an output_dir each; hf::Trainer and the program check that, this class does
/// not.
///
/// Errors: kUsage; kNonFinite (a loss or gradient norm is not finite and logging_nan_inf_filter is not given;
/// with fp16 only after LossScaler::hopeless; the message names step and last checkpoint); kInterrupted; kIo.
class Trainer {
 public:
  /// Errors: those of validate_for_trainer, whose notices are not passed on, and of check_dataset; kUsage for
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
  /// Errors: also those of read_trainer_state.
  Plan plan(const std::string& resume_from);

  /// How messages and checkpoints call the model (its folder, if nobody says) and the training data.
  void call(std::string model, std::string data) { names_ = {std::move(model), std::move(data)}; }
  /// Checks that train(resume_from) can go on from the checkpoint: it is whole, fits the model, and is of
  /// this run.  Loads nothing.  `train` calls it where it was not. found: the checkpoint is the last one in
  /// output_dir, and nobody named it; then other training data are an error, too, of which `train` else only
  /// warns.  Errors: kUsage for another run's if it was found, else kInvalidData; kNotFound; kIo.
  void check(const std::string& resume_from, bool found = false);
  /// If the run of the checkpoint, which `check` took, has no update left to make and its model is in
  /// output_dir: takes weights and state from there, as after its training, says so, and returns true.  It
  /// writes nothing.
  bool take_finished(const std::string& resume_from);

  /// `resume_from`: a checkpoint folder; empty: starts at the beginning, with the present weights.
  /// Checkpoints in output_dir of later steps than it begins at are renamed old-checkpoint-N.
  TrainOutput train(const std::string& resume_from = "");

  /// Keys with prefix: eval_loss, eval_<metric>, eval_runtime, eval_samples_per_second,
  /// eval_steps_per_second, epoch.  With --int8 the values are those of 8-bit integers; then there are also
  /// eval_int8_change_loss and eval_int8_change_<metric>: each minus its value without --int8. --fp8 does the
  /// same.
  nlohmann::json evaluate(const TokenizedDataset& data, const std::string& prefix = "eval");
  /// The same for a test set, without epoch and without a line in the log. predictions: gets what the metrics
  /// are of; null: nobody asks.  Source: transformers' Trainer.predict.
  nlohmann::json test(const TokenizedDataset& data, const std::string& prefix = "test",
                      Predictions* predictions = nullptr);
  /// Warns about samples without a prediction.
  Predictions predict(const TokenizedDataset& data);
  /// With this instead of --int8 and --fp8; does not warn.
  Predictions predict(const TokenizedDataset& data, nn::Quantization quantization);
  /// The warning of `predict`; none where the count is 0.
  void warn_of_unpredicted(int64_t count, int64_t samples) const;
  /// How much predictions with and without 8-bit integers agree, as a sentence.
  std::string compare(const Predictions& quantized, const Predictions& other) const;

  /// Weights, configuration and tokenizer into a folder, by rank 0.  Errors: kUsage where `folder` is empty.
  void save_model(const std::string& folder);
  /// Whether train has made all of its updates, even if it failed after them.
  bool finished() const;
  /// Whether train was asked to stop and has ended its update.  Only the checkpoint can fail after that.
  bool stopping() const;
  /// Writes what save_model would have written into output_dir if the last checkpoint had not failed.  When a
  /// run stops, this is the model of its last step, best or not: the best one has its checkpoint.
  void save_model_alone();
  /// Writes trainer_state.json into output_dir, by rank 0.
  void save_state();

  const TrainerState& state() const { return progress_.state; }
  /// The loss of every update of the run.
  const LossCurve& losses() const { return progress_.run.losses; }
  /// Tokens without padding that all ranks have trained on since they began, up to the last log line.
  int64_t trained_tokens() const;
  /// Seconds spent in `evaluate`, during training or outside.
  double evaluation_seconds() const;
  /// The length to which a padding trainer would fill rows; it only counts in total_flos.  0: the longest row
  /// of the batch.
  void pad_to(int length);
  /// The arguments as validate_for_trainer leaves them, with the batch size that --auto_find_batch_size
  /// found.
  const TrainingArguments& arguments() const { return args_; }
  /// Whether the output of a frozen base may be kept from epoch to epoch; the default is true.  The result is
  /// the same, bit for bit, on devices that store activations in their dtype (`ref` continues in double).
  void keep_base_output(bool keep) { keep_base_output_ = keep; }
  Session& session() { return *session_; }
  const TaskModel& model() const { return *model_.model; }
  const AutoModel& auto_model() const { return model_; }
  /// Which weights of the checkpoint were missing or not used.
  const LoadReport& load_report() const { return load_report_; }

 private:
  /// Checks and reads the checkpoint that the run continues from, and brings `progress_` to its first step.
  Plan begin(const std::string& resume_from);
  /// Allocates all memory before the first step, or says what is missing.
  void reserve_memory(const Plan& plan, bool base_kept);
  RunIdentity identity() const;
  /// What the checkpoints of this run say about it.
  RunState facts(const Plan& plan) const;
  /// That no update is left to make, and how the run would go on.
  std::string over_text(const Plan& plan) const;
  /// Keeps the outputs of a frozen base that this run can use, or says why it cannot.  Returns that for the
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
  std::string loaded_weights_;  // RunIdentity::model
  struct {
    std::string model, data;
  } names_;
  struct Checked {
    std::string checkpoint;
    bool whole, found;
  };
  std::optional<Checked> checked_;  // until `train` begins
};

}  // namespace lathe
