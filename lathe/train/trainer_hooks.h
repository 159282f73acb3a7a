#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lathe/core/log.h"
#include "lathe/data/metrics.h"
#include "lathe/data/tokenized.h"
#include "lathe/train/predictions.h"

namespace lathe {

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
  LogSink message;
  /// Asked after every update, and every batch of an evaluation that is not part of a training; true: write a
  /// checkpoint, where something is trained, and stop with kInterrupted.
  std::function<bool()> should_stop;
};

}  // namespace lathe
