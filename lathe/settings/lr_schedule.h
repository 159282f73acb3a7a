#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lathe {

/// The learning rate over a run.  Step 0 is the first update.
/// Source: transformers 5.23 optimization.py, get_scheduler.
class LrSchedule {
 public:
  /// name: one of names(); kwargs: null or an object with the settings of that schedule
  /// (lr_scheduler_kwargs). Errors: kUsage for an unknown name, an unknown, missing or mistyped setting, or
  /// one that contradicts learning_rate.
  LrSchedule(const std::string& name, int64_t warmup_steps, int64_t training_steps, double learning_rate);
  LrSchedule(const std::string& name, int64_t warmup_steps, int64_t training_steps, double learning_rate,
             const nlohmann::json& kwargs);

  /// The factor of learning_rate at this step.
  double factor(int64_t step) const { return factor_(static_cast<double>(step)); }
  double learning_rate(int64_t step) const { return learning_rate_ * factor(step); }

  static const std::vector<std::string>& names();

 private:
  double learning_rate_;
  std::function<double(double)> factor_;
};

}  // namespace lathe
