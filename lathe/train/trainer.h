#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/data/metrics.h"
#include "lathe/data/sampler.h"
#include "lathe/data/tokenized.h"
#include "lathe/engine/base_cache.h"
#include "lathe/engine/ranks.h"
#include "lathe/engine/session.h"
#include "lathe/io/descriptor_reserve.h"
#include "lathe/io/file_system.h"
#include "lathe/io/leftovers.h"
#include "lathe/settings/lr_schedule.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/early_stopping.h"
#include "lathe/train/log_format.h"
#include "lathe/train/loss_scaler.h"
#include "lathe/train/memory_metrics.h"
#include "lathe/train/predictions.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// Errors: kUnsupported, naming what it takes, if the device has no products of fp8.
void check_fp8(const Backend& backend);

/// What a trainer tells and asks while it runs.  Every member may be empty.
struct TrainerHooks {
  /// Metrics of an evaluation, with or without its prefix ("accuracy"), for the data set given to `evaluate`;
  /// not asked where that has no labels.
  std::function<MetricValues(const TokenizedDataset&, const Predictions&)> compute_metrics;
  /// A new line of the log history: loss lines, evaluations, the final summary.
  std::function<void(const nlohmann::ordered_json&)> on_log;
  /// The same line as the last of state().log_history, with its step: for trackers.
  std::function<void(const nlohmann::ordered_json&)> on_record;
  /// After every update; loss of the newest one whose outcome was read: most often the one before, none at
  /// first.
  std::function<void(int64_t step, int64_t max_steps, std::optional<double> loss)> on_step;
  /// Before the first batch of an evaluation, as batch 0, and after each.
  std::function<void(int64_t batch, int64_t batches)> on_evaluation_step;
  /// What is the same for all ranks: told by those that speaks_for_all.
  std::function<void(LogLevel, const std::string&)> message;
  /// Asked after every update, and every batch of an evaluation that is not part of a training; true: write a
  /// checkpoint, where something is trained, and stop with kInterrupted.
  std::function<bool()> should_stop;
};

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
/// and of an evaluation's, gets the same losses and metrics, and rank 0 alone writes files.  `backend`,
/// `model` and the data sets must outlive it.  Trainers, each in its thread, may share a model, whose weights
/// lie in each of them; one that freezes its base wants one of its own (twin_of).  Those that train at once
/// want an output_dir each: hf::Trainer and the program refuse a second one, this class does not.  Errors:
/// kUsage, kNonFinite (a loss or gradient norm that is not finite, unless logging_nan_inf_filter is given;
/// with fp16 only where LossScaler::hopeless; the message names step and last checkpoint), kInterrupted, kIo.
class Trainer {
 public:
  /// Errors: those of validate_for_trainer, whose notices it does not tell, and of check_dataset; kUsage for
  /// arguments that do not fit the head, the data or the processes; kUnsupported for what the device lacks.
  Trainer(Backend& backend, AutoModel& model, const TrainingArguments& args,
          const TokenizedDataset* train_dataset, const TokenizedDataset* eval_dataset,
          TrainerHooks hooks = {}, FileSystem& fs = real_file_system());

  /// How long a run is.
  struct Plan {
    int64_t batches_per_epoch = 0, updates_per_epoch = 0, max_steps = 0, epochs = 0;
  };
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
  /// Whether train has made all of its updates, even if it failed behind them.
  bool finished() const {
    return course_.stopped_early || (state_.max_steps > 0 && course_.updates_collected == state_.max_steps);
  }
  /// Whether train was asked to stop and has ended its update: what may fail then is the checkpoint.
  bool stopping() const { return course_.stopping; }
  /// What save_model would have written into output_dir, had the last checkpoint not failed.  Of a run that
  /// stops it is the model of its last step, the best or not: that has a checkpoint.
  void save_model_alone();
  /// trainer_state.json into output_dir, by rank 0.
  void save_state();

  const TrainerState& state() const { return state_; }
  /// Tokens, padding left out, that all ranks have trained on since they began, up to the last log line.
  int64_t trained_tokens() const { return trained_tokens_; }
  /// Seconds spent in `evaluate`, within a training or not.
  double evaluation_seconds() const { return evaluation_seconds_; }
  /// Length to which a padding trainer would fill rows; counts in total_flos alone.  0: the longest of the
  /// batch.
  void pad_to(int length) { pad_to_ = length; }
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
  Plan begin(const std::string& resume_from);
  /// Splits micro-batches, so that an update stays what it is, until they fit.
  void find_batch_size();
  void set_batch_size(int64_t size);
  void take_batch_size_of(const std::string& checkpoint);
  /// The runs of one update, each as large as any of the run.
  std::vector<Work> update_work(const Plan& plan) const;
  Work evaluation_work(const TokenizedDataset& data, nn::Quantization quantization) const;
  /// All memory is there before the first step, or it is said what is missing.
  void reserve_memory(const Plan& plan);
  /// Before anything of it is read, on all ranks: it is whole (false: it does not tell) and of this model;
  /// and, once that is known, at a place where a run can be.
  bool check_checkpoint(const std::string& checkpoint) const;
  void check_place(const Plan& plan, const std::string& checkpoint) const;
  /// Errors: kInvalidData where its weights are not those that were written.
  void check_best_model(const std::string& checkpoint) const;
  /// Says what of a checkpoint makes this run another one than that which was stopped.
  void warn_of_differences(const Plan& plan, const std::string& checkpoint) const;
  /// Says which arguments of training_args.json or .bin are other ones here.
  void say_other_arguments(const std::string& checkpoint) const;
  /// The same for a checkpoint of Python's Trainer, which holds other facts, and what it leaves open.
  void say_how_python_goes_on(const Plan& plan, const std::string& checkpoint,
                              const OptimizerProgress& there) const;
  /// Makes the caches of the base's output that this run can use, and says where there is none.
  void make_base_caches(const Plan& plan);
  std::unique_ptr<BaseCache> make_base_cache(const TokenizedDataset& data, const std::string& when) const;
  void run_updates(const Plan& plan);
  /// Several ranks: all of them were made for the same run.  Errors: kUsage.
  void check_ranks();
  /// And are at the same place of it.
  void check_ranks(const Plan& plan);
  std::string weights_checksum() const;
  /// Adds what all ranks have counted since the last time to the state.  Within a training it tells all,
  /// too, whether one was asked to stop.
  void share_counts();
  ProcessGroup* group() const { return backend_.group(); }
  /// The place in the data, in updates from the start of the first epoch.
  int64_t data_updates() const { return state_.global_step - course_.data_lag; }
  /// One update from its micro-batches.
  void start_update(const Plan& plan, class BatchStream& stream);
  /// Reads the outcomes of all runs but the `keep` newest: on a device that runs ahead, one run late.
  void collect(size_t keep);
  /// What a batch's mean loss counts for in the update of `count` batches from the epoch's `first` on.  With
  /// --hf_compat_loss_scale as in transformers 5, which tells models and label smoothing how many samples the
  /// update has: classifiers then add up means, label smoothing divides by it, question answering is not
  /// told.
  double loss_weight(const PackedBatch& batch, int64_t first, int64_t count) const;
  void count_tokens(const PackedBatch& batch);
  /// The loss of a run as it is summed up: where it is not finite and the filter is on, the mean since the
  /// last log line.
  double filtered_loss(double loss) const;
  void end_update(double loss);
  /// Tells the scaler how the update came out.  Errors: kNonFinite.
  void adapt_loss_scale(bool finite_loss);
  /// "Last good checkpoint: ...", or that there is none.
  std::string where_to_go_on() const;
  void after_update(const Plan& plan);
  /// The mean loss since the last such line, if there was an update.
  void log_progress();
  /// Whether a strategy, "steps" or "epoch", has something to do after this update.
  bool is_due(const Plan& plan, const std::string& strategy, int64_t every, bool epoch_end) const;
  /// True: the model is better than at any evaluation before.
  bool evaluate_if_due(const Plan& plan, bool epoch_end);
  void save_if_due(const Plan& plan, bool epoch_end, bool better);
  /// Early stopping, schedule and best model after an evaluation.  True: it was the best so far.
  bool follow_metric(const nlohmann::json& metrics);
  CheckpointFolder checkpoint_folder() const;
  /// Clears what killed runs left in output_dir and lays a note for what this one may leave.
  void take_output_folder();
  /// Keeps what the next checkpoint opens from others; a warning, once, where there is not enough.
  void hold_descriptors();
  bool keeps_checkpoints() const { return is_main(group()) && args_.output_dir; }
  std::string save_checkpoint(bool only_model);
  void write_checkpoint_to(const std::string& folder, bool only_model);
  /// How many of them this run writes, whatever --save_total_limit takes away.
  int64_t checkpoints_to_come(const Plan& plan) const;
  void load_best_model();
  void take_weights_of_main();
  void log(nlohmann::ordered_json entry, bool of_training = false);
  /// What depends on the device or its group in the arguments.  Errors: kUsage, kUnsupported.
  void check_arguments();
  void make_schedule(const Plan& plan);
  double next_learning_rate() const;
  bool counts_tokens() const { return args_.include_num_input_tokens_seen != "no"; }
  size_t batches_ahead() const;
  /// The stage under whose name memory is measured; empty: it is not.
  std::string memory_stage(const std::string& stage) const { return args_.skip_memory_metrics ? "" : stage; }
  /// What `memory` has measured, and once that of the start.
  void add_memory(const MemoryMetrics& memory, nlohmann::json& metrics);
  /// The metric by which the best model is found.  Errors: kUsage if the evaluation has none of that name.
  double best_model_metric(const nlohmann::json& metrics) const;
  bool greater_is_better() const;
  void say(LogLevel level, const std::string& text) const;
  /// Errors: kInvalidData where the model cannot be trained or scored on it.
  void check_data(const TokenizedDataset& data, const char* what) const;
  SamplerOptions sampler_options(int64_t samples) const;
  SamplerOptions evaluation_options(int64_t samples) const;
  /// Loss, scores and speed of an evaluation, with `prefix`.
  nlohmann::json measure(const TokenizedDataset& data, const std::string& prefix);
  /// The scores of this rank's batches.
  std::vector<BatchScores> scores(const TokenizedDataset& data, const Work& work);
  DType evaluation_dtype() const;

  Backend& backend_;
  AutoModel& model_;
  TrainingArguments args_;
  const TokenizedDataset* train_;
  const TokenizedDataset* eval_;
  TrainerHooks hooks_;
  FileSystem& fs_;
  std::optional<LeftoversNote> note_;   // in output_dir, while it trains
  DescriptorReserve reserve_;           // between checkpoints
  bool descriptors_are_short_ = false;  // and it was said
  std::unique_ptr<Session> session_;
  std::unique_ptr<BaseCache> train_base_, eval_base_;  ///< null: the base runs every time
  bool keep_base_output_ = true;
  LoadReport load_report_;
  TrainerState state_;
  RunState run_;

  struct Started {
    Session::Pending run;
    double loss_weight;
    bool ends_update;
  };
  /// What one call of train keeps, beside what checkpoints hold: the next begins with another.
  struct Course {
    std::chrono::steady_clock::time_point started_at = std::chrono::steady_clock::now();
    int64_t first_step = 0;    ///< of this call of train
    int64_t first_tokens = 0;  ///< num_input_tokens_seen then
    /// Updates by which the data lies behind: with --ignore_data_skip a resumed run begins its epoch anew.
    int64_t data_lag = 0;
    std::unique_ptr<LrSchedule> schedule;
    std::optional<MetricSchedule> metric_schedule;  ///< in its place
    std::optional<EarlyStopping> early_stopping;
    std::optional<LossScaler> scaler;  ///< with fp16
    std::deque<Started> started;
    double update_loss = 0;   ///< of the runs of an update that were collected
    bool finite_loss = true;  ///< of all of them
    int64_t updates_collected = 0;
    std::optional<double> last_loss;
    double last_norm = 0, last_learning_rate = 0;
    /// Of this rank, since share_counts: tokens as they were asked for, and those without padding.
    double flos = 0, tokens = 0, real_tokens = 0;
    bool stopped_early = false;
    bool stop_asked = false;  ///< several ranks: one of them was asked to stop
    bool stopping = false;
    bool saved_this_step = false;
  };
  Course course_;
  int64_t trained_tokens_ = 0;  ///< of all ranks
  double evaluation_seconds_ = 0;
  nlohmann::json init_memory_;  ///< metrics of the constructor, until they are told
  int pad_to_ = 0;
  bool in_training_ = false;
};

}  // namespace lathe
