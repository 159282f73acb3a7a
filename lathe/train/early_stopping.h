#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace lathe {

/// Counts successive evaluations that were not better than the best one so far.
/// Source: transformers' EarlyStoppingCallback; the state in trainer_state.json is its state.
class EarlyStopping {
 public:
  /// callbacks: TrainerState::stateful_callbacks of the run to continue; the count is taken from there.
  EarlyStopping(int64_t patience, double threshold, const nlohmann::json& callbacks);

  /// Another evaluation; `best` is the best before it.  Writes the count into `callbacks`.  True: stop.
  bool step(double metric, std::optional<double> best, bool greater_is_better, nlohmann::json& callbacks);
  /// Whether the run that was counted before has stopped early: then this one has no update to make.
  bool exhausted() const { return count_ >= patience_; }

 private:
  int64_t patience_, count_ = 0;
  double threshold_;
};

}  // namespace lathe
