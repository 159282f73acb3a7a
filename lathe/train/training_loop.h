#pragma once
#include <string>

#include "lathe/train/evaluator.h"
#include "lathe/train/metric_watch.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/run_log.h"
#include "lathe/train/training_plan.h"
#include "lathe/train/updates.h"

namespace lathe {

/// The masks go on from what a checkpoint says of them, if it does.  Returns the state before those that are
/// drawn for the next batch, or nothing.  Errors: kInvalidData.
std::vector<std::byte> take_masks(const RunState& run, const TrainerHooks& hooks, const ProcessGroup* group);

/// The course of one call of train: update after update, and what is due after each.
class TrainingLoop {
 public:
  /// All must outlive it.  progress: where the run begins.
  TrainingLoop(Session& session, const TrainingArguments& args, const TokenizedDataset& data,
               const TrainingPlan& plan, const TrainerHooks& hooks, RunProgress& progress,
               RunCheckpoints& checkpoints, Evaluator& evaluator, RunLog& log);

  /// Makes all updates that are left. base: the kept output of a frozen base, else null.
  /// Errors: kInterrupted, after a checkpoint, if it was asked to stop; those of Updates and of saving.
  void run(BaseCache* base);

  int64_t first_step() const { return first_step_; }
  bool stopped_early() const { return watch_.stopped_early(); }
  /// Whether all updates are made, even if the run failed after them.
  bool finished() const { return stopped_early() || updates_.collected() == plan_.max_steps; }
  /// Whether it was asked to stop and has ended its update.  Only the checkpoint can fail after that.
  bool stopping() const { return stopping_; }

 private:
  /// The place in the data, in updates from the start of the first epoch.
  int64_t data_updates() const { return progress_.state.global_step - data_lag_; }
  void make_update(BatchStream& stream, BaseCache* base);
  void after_update();
  /// Logs the mean loss since the last such line, if there was an update.
  void log_progress();
  /// Whether a strategy, "steps" or "epoch", has something to do after this update.
  bool is_due(const std::string& strategy, int64_t every, bool epoch_end) const;
  /// True: the model is better than at any earlier evaluation.
  bool evaluate_if_due(bool epoch_end);
  /// True: there is a checkpoint of this step.
  bool save_if_due(bool epoch_end, bool better);
  std::string save_checkpoint(bool only_model);
  [[noreturn]] void stop(bool saved);

  /// Of each rank, for a checkpoint.
  std::vector<std::string> masks() const;

  Session& session_;
  const TrainingArguments& args_;
  const TokenizedDataset& data_;
  const TrainingPlan plan_;
  const TrainerHooks& hooks_;
  RunProgress& progress_;
  RunCheckpoints& checkpoints_;
  Evaluator& evaluator_;
  RunLog& log_;
  MetricWatch watch_;
  Updates updates_;
  int64_t first_step_;
  /// Updates by which the place in the data is less than the step: with --ignore_data_skip a resumed run
  /// begins its epoch anew.
  int64_t data_lag_;
  bool stopping_ = false;
  const BatchStream* stream_ = nullptr;  ///< while it runs
};

}  // namespace lathe
