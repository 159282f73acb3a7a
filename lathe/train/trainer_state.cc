#include "lathe/train/trainer_state.h"

#include <cmath>
#include <limits>

#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"

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

/// What transformers' Trainer reads into its TrainerControl; it does not resume from a file without it.
nlohmann::json control_of(const TrainerState& state) {
  const nlohmann::json args = {{"should_epoch_stop", false},
                               {"should_evaluate", false},
                               {"should_log", false},
                               {"should_save", true},
                               {"should_training_stop", state.global_step >= state.max_steps}};
  return {{"args", args}, {"attributes", nlohmann::json::object()}};
}

constexpr int64_t kMostCounted = int64_t{1} << 53;  // larger numbers are not exact in a JSON of doubles

/// The members of the file's object.
class Values {
 public:
  Values(const nlohmann::json& json, const std::string& file) : json_(json), file_(file) {}

  int64_t count(const char* key, int64_t fallback, int64_t least, int64_t most) const {
    const int64_t value = value_or<int64_t>(json_, key, fallback, file_);
    if (value < least || value > most)
      refuse(fmt::format("\"{}\"", key), std::to_string(value), fmt::format("{} to {}", least, most));
    return value;
  }

  /// What is never negative.
  double measure(const char* key) const {
    const double value = value_or<double>(json_, key, 0, file_);
    if (!(value >= 0) || std::isinf(value))
      refuse(fmt::format("\"{}\"", key), python_repr(value), "a number from 0");
    return value;
  }

  std::vector<nlohmann::ordered_json> log_history(int64_t last_step) const {
    const nlohmann::json& history = json_["log_history"];
    if (!history.is_array()) refuse("log_history", history.type_name(), "a list");
    std::vector<nlohmann::ordered_json> entries;
    for (size_t i = 0; i < history.size(); ++i) {
      const std::string place = fmt::format("log_history[{}]", i);
      if (!history[i].is_object()) refuse(place, history[i].type_name(), "an object");
      if (const auto step = history[i].find("step"); step != history[i].end()) {
        if (!step->is_number()) refuse(place + ".step", step->type_name(), "a number");
        if (const auto value = step->get<double>(); !(value >= 0 && value <= static_cast<double>(last_step)))
          refuse(place + ".step", step->dump(), fmt::format("0 to {}, the global_step", last_step));
      }
      entries.push_back(history[i]);
    }
    return entries;
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& found,
                           const std::string& wanted) const {
    fail(ErrorCode::kInvalidData, "{}: {}: found {}, expected {}; take a checkpoint that is whole", file_,
         place, found, wanted);
  }

  const nlohmann::json& json_;
  const std::string& file_;
};

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
  const Values values(json, file);
  TrainerState state;
  state.epoch = values.measure("epoch");
  state.global_step = required<int64_t>(json, "global_step", file);
  state.global_step = values.count("global_step", 0, 0, kMostCounted);
  state.max_steps = values.count("max_steps", 0, 0, kMostCounted);
  // Python writes the largest possible number if an iterable has no length.
  state.num_train_epochs = values.count("num_train_epochs", 0, 0, std::numeric_limits<int64_t>::max());
  state.num_input_tokens_seen = values.count("num_input_tokens_seen", 0, 0, kMostCounted);
  state.total_flos = values.measure("total_flos");
  state.train_batch_size = values.count("train_batch_size", 8, 1, std::numeric_limits<int32_t>::max());
  state.best_metric = optional_at<double>(json, "best_metric", file);
  if (optional_at<int64_t>(json, "best_global_step", file))
    state.best_global_step = values.count("best_global_step", 0, 0, state.global_step);
  state.best_model_checkpoint = optional_at<std::string>(json, "best_model_checkpoint", file);
  if (json.contains("stateful_callbacks") && json["stateful_callbacks"].is_object())
    state.stateful_callbacks = json["stateful_callbacks"];
  if (json.contains("log_history")) state.log_history = values.log_history(state.global_step);
  return state;
}

}  // namespace lathe
