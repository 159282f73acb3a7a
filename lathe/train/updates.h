#pragma once
#include <deque>
#include <optional>

#include "lathe/engine/base_cache.h"
#include "lathe/engine/session.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/loss_scaler.h"
#include "lathe/train/metric_watch.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/run_log.h"

namespace lathe {

/// Makes the updates of one call of train.  It reads their outcomes one run late, so that a device that runs
/// ahead does not wait, and sums them in RunState.
class Updates {
 public:
  /// All must outlive it. samples: of the training data. checkpoints: to say where a run can continue.
  Updates(Session& session, const TrainingArguments& args, int64_t samples, RunProgress& progress,
          RunLog& log, const RunCheckpoints& checkpoints);

  /// Starts one of the `count` micro-batches of the epoch from `first` on; the stream gives the batch. base:
  /// the kept output of a frozen base, else null.
  void start(BatchStream& stream, BaseCache* base, int64_t first, int64_t count, const MetricWatch& watch);
  /// Reads the outcomes of all runs but the `keep` newest.  Errors: kNonFinite for a loss or a gradient norm
  /// that is not finite, unless logging_nan_inf_filter is given; with fp16 only after LossScaler::hopeless.
  void collect(size_t keep);

  int64_t collected() const { return collected_; }  ///< updates of the whole run
  std::optional<double> last_loss() const { return last_loss_; }
  double last_norm() const { return last_norm_; }
  double last_learning_rate() const { return last_learning_rate_; }

 private:
  struct Started {
    Session::Pending run;
    double loss_weight;
    bool ends_update;
  };
  StepScalars scalars(const MetricWatch& watch) const;
  /// The weight of a batch's mean loss in the update of `count` batches from the epoch's `first` on.  With
  /// --hf_compat_loss_scale as in transformers 5, which passes models and label smoothing the number of
  /// samples in the update: classifiers then add up means, label smoothing divides by the number, and
  /// question answering does not get it.
  /// items: that the update scores, where its model or label smoothing divides by them, with this flag or for
  /// a task that always does (Task::weighs_tokens); else 0.
  double loss_weight(const PackedBatch& batch, int64_t first, int64_t count, int64_t items) const;
  int64_t items_of_update(BatchStream& stream, int64_t count) const;
  /// The loss of a run as it is summed.  If it is not finite and the filter is on: the mean since the last
  /// log line.
  double filtered_loss(double loss) const;
  void end_update(double loss);
  /// Gives the scaler the outcome of the update.
  void adapt_loss_scale(bool finite_loss);

  Session& session_;
  const TrainingArguments& args_;
  int64_t samples_;
  RunProgress& progress_;
  RunLog& log_;
  const RunCheckpoints& checkpoints_;
  std::optional<LossScaler> scaler_;  // with fp16
  std::deque<Started> started_;
  double update_loss_ = 0;   // of the collected runs of an update
  bool finite_loss_ = true;  // of all of them
  int64_t collected_;
  std::optional<double> last_loss_;
  double last_norm_ = 0, last_learning_rate_ = 0;
};

}  // namespace lathe
