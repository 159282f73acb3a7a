#include "lathe/train/metric_watch.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr const char* kHead = "head";  // in the state of a schedule: that of the head

}  // namespace

MetricWatch::MetricWatch(const TrainingArguments& args, int64_t max_steps, RunProgress& progress, LogSink say)
    : args_(args), progress_(progress), say_(std::move(say)) {
  if (MetricSchedule::is(args.lr_scheduler_type)) {
    const nlohmann::json& before = progress.run.metric_schedule;
    metric_schedule_.emplace(args.lr_scheduler_type, args.learning_rate, args.lr_scheduler_kwargs);
    if (!before.is_null()) metric_schedule_->restore(before);
    if (args.head_learning_rate) {
      head_metric_schedule_.emplace(args.lr_scheduler_type, *args.head_learning_rate,
                                    args.lr_scheduler_kwargs);
      if (before.is_object() && before.contains(kHead)) head_metric_schedule_->restore(before[kHead]);
    }
  } else {
    schedule_.emplace(args.lr_scheduler_type, warmup_steps(args, max_steps), max_steps, args.learning_rate,
                      args.lr_scheduler_kwargs);
  }
  if (args.early_stopping_patience)
    early_stopping_.emplace(*args.early_stopping_patience, args.early_stopping_threshold,
                            progress.state.stateful_callbacks);
  stopped_early_ = early_stopping_ && early_stopping_->exhausted();
}

double MetricWatch::learning_rate() const {
  return metric_schedule_ ? metric_schedule_->learning_rate() : schedule_->learning_rate(progress_.applied());
}

double MetricWatch::head_learning_rate() const {
  if (head_metric_schedule_) return head_metric_schedule_->learning_rate();
  return schedule_ ? args_.head_learning_rate.value_or(0) * schedule_->factor(progress_.applied()) : 0;
}

double MetricWatch::best_model_metric(const nlohmann::json& metrics) const {
  std::string key = *args_.metric_for_best_model;
  if (!key.starts_with("eval_")) key = "eval_" + key;
  if (!metrics.contains(key)) {
    std::string known;
    for (const auto& [name, value] : metrics.items()) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorCode::kUsage, "--metric_for_best_model: {} is no metric of this evaluation; there are {}", key,
         known);
  }
  return metrics[key];
}

bool MetricWatch::follow(const nlohmann::json& metrics) {
  if (!args_.metric_for_best_model) return false;
  TrainerState& state = progress_.state;
  const double value = best_model_metric(metrics);
  const bool greater = args_.greater_is_better.value_or(!args_.metric_for_best_model->ends_with("loss"));
  if (metric_schedule_) {
    metric_schedule_->step(value);
    progress_.run.metric_schedule = metric_schedule_->state();
    if (head_metric_schedule_) {
      head_metric_schedule_->step(value);
      progress_.run.metric_schedule[kHead] = head_metric_schedule_->state();
    }
  }
  if (early_stopping_ && early_stopping_->step(value, state.best_metric, greater, state.stateful_callbacks)) {
    stopped_early_ = true;
    say_(LogLevel::kInfo,
         fmt::format("stopping early after step {}: {} evaluations in a row without a better {}",
                     state.global_step, *args_.early_stopping_patience, *args_.metric_for_best_model));
  }
  if (!std::isfinite(value)) return false;
  if (state.best_metric && !(greater ? value > *state.best_metric : value < *state.best_metric)) return false;
  state.best_metric = value;
  if (args_.save_strategy != "no") state.best_global_step = state.global_step;
  return true;
}

}  // namespace lathe
