// What follows a metric of the evaluations: the learning rate, early stopping, the best model.
#include <cmath>

#include "lathe/train/trainer.h"

namespace lathe {

void Trainer::make_schedule(const Plan& plan) {
  if (!MetricSchedule::is(args_.lr_scheduler_type)) {
    course_.schedule =
        std::make_unique<LrSchedule>(args_.lr_scheduler_type, warmup_steps(args_, plan.max_steps),
                                     plan.max_steps, args_.learning_rate, args_.lr_scheduler_kwargs);
    return;
  }
  course_.metric_schedule.emplace(args_.lr_scheduler_type, args_.learning_rate, args_.lr_scheduler_kwargs);
  if (!run_.metric_schedule.is_null()) course_.metric_schedule->restore(run_.metric_schedule);
}

double Trainer::next_learning_rate() const {
  if (course_.metric_schedule) return course_.metric_schedule->learning_rate();
  return course_.schedule->learning_rate(state_.global_step - run_.skipped_updates);
}

double Trainer::best_model_metric(const nlohmann::json& metrics) const {
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

bool Trainer::greater_is_better() const {
  return args_.greater_is_better.value_or(!args_.metric_for_best_model->ends_with("loss"));
}

bool Trainer::follow_metric(const nlohmann::json& metrics) {
  if (!args_.metric_for_best_model) return false;
  const double value = best_model_metric(metrics);
  const bool greater = greater_is_better();
  if (course_.metric_schedule) {
    course_.metric_schedule->step(value);
    run_.metric_schedule = course_.metric_schedule->state();
  }
  if (course_.early_stopping &&
      course_.early_stopping->step(value, state_.best_metric, greater, state_.stateful_callbacks)) {
    course_.stopped_early = true;
    say(LogLevel::kInfo,
        fmt::format("stopping early after step {}: {} evaluations in a row without a better {}",
                    state_.global_step, *args_.early_stopping_patience, *args_.metric_for_best_model));
  }
  if (!std::isfinite(value)) return false;
  if (state_.best_metric && !(greater ? value > *state_.best_metric : value < *state_.best_metric))
    return false;
  state_.best_metric = value;
  if (args_.save_strategy != "no") state_.best_global_step = state_.global_step;
  return true;
}

}  // namespace lathe
