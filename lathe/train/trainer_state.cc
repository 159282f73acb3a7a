#include "lathe/train/trainer_state.h"

#include "lathe/data/python_format.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

template <typename T>
std::optional<T> optional_at(const nlohmann::json& json, const char* key, const std::string& file) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::nullopt;
  return required<T>(json, key, file);
}

/// What transformers' Trainer asks its TrainerControl; it does not go on from a file without.
nlohmann::json control_of(const TrainerState& state) {
  const nlohmann::json args = {{"should_epoch_stop", false},
                               {"should_evaluate", false},
                               {"should_log", false},
                               {"should_save", true},
                               {"should_training_stop", state.global_step >= state.max_steps}};
  return {{"args", args}, {"attributes", nlohmann::json::object()}};
}

}  // namespace

std::string to_json_text(const TrainerState& state) {
  nlohmann::json history = nlohmann::json::array();
  for (const auto& entry : state.log_history) history.push_back(nlohmann::json(entry));
  nlohmann::json callbacks = state.stateful_callbacks;
  callbacks["TrainerControl"] = control_of(state);
  const nlohmann::json json = {{"best_global_step", or_null(state.best_global_step)},
                               {"best_metric", or_null(state.best_metric)},
                               {"best_model_checkpoint", or_null(state.best_model_checkpoint)},
                               {"epoch", state.epoch},
                               {"eval_steps", state.eval_steps},
                               {"global_step", state.global_step},
                               {"is_hyper_param_search", false},
                               {"is_local_process_zero", true},
                               {"is_world_process_zero", true},
                               {"log_history", history},
                               {"logging_steps", state.logging_steps},
                               {"max_steps", state.max_steps},
                               {"num_input_tokens_seen", state.num_input_tokens_seen},
                               {"num_train_epochs", state.num_train_epochs},
                               {"save_steps", state.save_steps},
                               {"stateful_callbacks", callbacks},
                               {"total_flos", state.total_flos},
                               {"train_batch_size", state.train_batch_size},
                               {"trial_name", nullptr},
                               {"trial_params", nullptr}};
  return python_json(json, 2) + "\n";
}

TrainerState trainer_state_from(const nlohmann::json& json, const std::string& file) {
  TrainerState state;
  state.epoch = value_or<double>(json, "epoch", 0, file);
  state.global_step = required<int64_t>(json, "global_step", file);
  state.max_steps = value_or<int64_t>(json, "max_steps", 0, file);
  state.num_train_epochs = value_or<int64_t>(json, "num_train_epochs", 0, file);
  state.num_input_tokens_seen = value_or<int64_t>(json, "num_input_tokens_seen", 0, file);
  state.total_flos = value_or<double>(json, "total_flos", 0, file);
  state.train_batch_size = value_or<int64_t>(json, "train_batch_size", 8, file);
  state.best_metric = optional_at<double>(json, "best_metric", file);
  state.best_global_step = optional_at<int64_t>(json, "best_global_step", file);
  state.best_model_checkpoint = optional_at<std::string>(json, "best_model_checkpoint", file);
  if (json.contains("stateful_callbacks") && json["stateful_callbacks"].is_object())
    state.stateful_callbacks = json["stateful_callbacks"];
  if (json.contains("log_history")) {
    const auto wants = [&](bool holds, const std::string& place, const nlohmann::json& found,
                           const char* wanted) {
      if (!holds)
        fail(ErrorCode::kInvalidData, "{}: {}: found {}, wants {}; take a checkpoint that is whole", file,
             place, found.type_name(), wanted);
    };
    const nlohmann::json& history = json["log_history"];
    wants(history.is_array(), "log_history", history, "a list");
    for (size_t i = 0; i < history.size(); ++i) {
      const std::string place = fmt::format("log_history[{}]", i);
      wants(history[i].is_object(), place, history[i], "an object");
      if (history[i].contains("step"))
        wants(history[i]["step"].is_number(), place + ".step", history[i]["step"], "a number");
      state.log_history.push_back(history[i]);
    }
  }
  return state;
}

}  // namespace lathe
