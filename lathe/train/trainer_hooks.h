#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lathe/core/log.h"
#include "lathe/data/lm/batch_masks.h"
#include "lathe/data/metrics.h"
#include "lathe/data/tokenized.h"
#include "lathe/tasks/predictions.h"

namespace lathe {

/// What a trainer reports and asks while it runs.  Every member may be empty.
struct TrainerHooks {
  /// Metrics of an evaluation, with or without its prefix ("accuracy"), for the data set given to `evaluate`;
  /// not called if that has no labels.
  std::function<MetricValues(const TokenizedDataset&, const Predictions&)> compute_metrics;
  /// A new line of the log history: loss lines, evaluations, the final summary.
  std::function<void(const nlohmann::ordered_json&)> on_log;
  /// The same line as the last of state().log_history, with its step: for trackers.
  std::function<void(const nlohmann::ordered_json&)> on_record;
  /// After every update. loss: of the newest update with a known outcome; usually that is the one before, at
  /// first there is none.
  std::function<void(int64_t step, int64_t max_steps, std::optional<double> loss)> on_step;
  /// Before the first batch of an evaluation, as batch 0, and after each.
  std::function<void(int64_t batch, int64_t batches)> on_evaluation_step;
  /// What is the same for all ranks; called on ranks for which speaks_for_all holds.
  LogSink message;
  /// Asked after every update, and after every batch of an evaluation outside a training.  True: stop with
  /// kInterrupted, in a training after writing a checkpoint.
  std::function<bool()> should_stop;
  /// What masks the batches of a masked language model, in training and evaluation; checkpoints hold its
  /// state.
  std::shared_ptr<BatchMasks> masks;
};

}  // namespace lathe
