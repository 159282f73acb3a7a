#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// A learning rate that follows a metric of the evaluations.  It is constant between them; it is lowered if
/// the metric does not improve and, with "greedy", raised while it keeps improving.
/// Source: torch.optim.lr_scheduler.ReduceLROnPlateau; transformers 5.23 optimization.py, GreedyLR.
class MetricSchedule {
 public:
  /// name: one of names(); kwargs: null or an object with the settings of that schedule
  /// (lr_scheduler_kwargs).  Errors: kUsage for an unknown, mistyped or impossible setting.
  MetricSchedule(const std::string& name, double learning_rate, const nlohmann::json& kwargs);
  static const std::vector<std::string>& names();
  static bool is(std::string_view name);

  double learning_rate() const { return rate_; }
  /// Another evaluation.
  void step(double metric);

  /// The state to save in a checkpoint. restore: takes that of a schedule with the same name and settings.
  nlohmann::json state() const;
  void restore(const nlohmann::json& state);

  /// state_dict() of the Python object at this place, with its settings and two groups of parameters.  Before
  /// the first metric "best" is an infinity, which no JSON text can hold.
  nlohmann::json python_state() const;
  /// Gets `state` from it, for either schedule.  `file` is for messages.  Errors: kInvalidData; kUnsupported
  /// if the groups' learning rates are not the same.
  static nlohmann::json state_of_python(const nlohmann::json& python, const std::string& file);

 private:
  bool better(double value) const;
  double smoothed(double value);
  void plateau(double value);
  void greedy(double value);
  void lower();
  void raise();
  void reset();

  // settings
  bool greedy_, greater_ = false, relative_ = true, smooth_ = false;
  double factor_ = 0.1, threshold_ = 1e-4, least_ = 0, most_ = 1, eps_ = 1e-8, first_;
  int64_t patience_ = 10, cooldown_ = 0, warmup_ = 0, window_ = 50, reset_start_ = 500;
  // what it remembers
  double rate_, best_, window_sum_ = 0;
  int64_t bad_ = 0, good_ = 0, cooling_ = 0, warming_ = 0, until_reset_ = 500, evaluations_ = 0;
  std::vector<double> recent_;  ///< metrics in the window
};

}  // namespace lathe
