#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "lathe/core/log.h"
#include "lathe/settings/lr_schedule.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/early_stopping.h"

namespace lathe {

/// What one call of train does with its metrics: learning rate, early stopping, best model.
class MetricWatch {
 public:
  /// progress: of the run that continues; it keeps what must be remembered.  All arguments but `args` may be
  /// read until the last call of `follow`.
  MetricWatch(const TrainingArguments& args, int64_t max_steps, RunProgress& progress, LogSink say);

  /// The learning rate of the next update.
  double learning_rate() const;
  /// The head's, if it has one of its own: it follows the same schedule.
  double head_learning_rate() const;
  /// Another evaluation; keys have the prefix "eval".  True: the model is better than ever before.
  /// Errors: kUsage if the metrics lack the one that decides which model is best.
  bool follow(const nlohmann::json& metrics);
  /// Whether the run ends before its last update: it stopped now or, for a resumed run, earlier.
  bool stopped_early() const { return stopped_early_; }

 private:
  double best_model_metric(const nlohmann::json& metrics) const;

  const TrainingArguments& args_;
  RunProgress& progress_;
  LogSink say_;
  std::optional<LrSchedule> schedule_;
  std::optional<MetricSchedule> metric_schedule_, head_metric_schedule_;  // in its place
  std::optional<EarlyStopping> early_stopping_;
  bool stopped_early_ = false;
};

}  // namespace lathe
