#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lathe {

inline constexpr const char* kTrainerStateFile = "trainer_state.json";

/// The progress of a run, as trainer_state.json holds it.  Source: transformers' TrainerState.
struct TrainerState {
  double epoch = 0;
  int64_t global_step = 0, max_steps = 0, num_train_epochs = 0;
  int64_t logging_steps = 500, eval_steps = 500, save_steps = 500, train_batch_size = 8;
  int64_t num_input_tokens_seen = 0;
  double total_flos = 0;
  std::vector<nlohmann::ordered_json> log_history;
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::optional<std::string> best_model_checkpoint;
  /// By name, as Python's callbacks write them; Lathe keeps those that it does not use.
  nlohmann::json stateful_callbacks = nlohmann::json::object();
};

/// The file's content: indent 2, sorted keys.
std::string to_json_text(const TrainerState& state);
/// Errors: kInvalidData, naming the file and, for a value that no run has, the key.
TrainerState trainer_state_from(const nlohmann::json& json, const std::string& file);

}  // namespace lathe
