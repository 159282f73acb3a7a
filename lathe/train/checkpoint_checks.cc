#include "lathe/train/checkpoint_checks.h"

#include <algorithm>
#include <cmath>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {
namespace {

constexpr const char* kTakeAWholeOne = "take a checkpoint that is whole";

/// The first key under which two objects differ; empty if none.
std::string key_that_differs(const nlohmann::json& a, const nlohmann::json& b) {
  nlohmann::json both = a;
  both.update(b);
  for (const auto& [key, value] : both.items())
    if (a.value(key, nlohmann::json()) != b.value(key, nlohmann::json())) return key;
  return "";
}

/// json: of its config.json. own: Lathe wrote it, with the names of its labels and what its head is for.
nlohmann::json settings_of(const ModelConfig& config, const nlohmann::json& json, bool own,
                           const std::vector<std::string>& labels) {
  nlohmann::json settings = used_settings(config);
  for (const char* key : {"architectures", "problem_type"})
    if (own && json.contains(key)) settings[key] = json[key];
  if (own && !labels.empty()) settings["id2label"] = labels;
  return settings;
}

constexpr size_t kFew = 12;  // labels that a message shows all of

/// Of many labels the first that is not the same in another list.
std::string first_other(const nlohmann::json& labels, const nlohmann::json& others) {
  size_t i = 0;
  while (i < labels.size() && i < others.size() && labels[i] == others[i]) ++i;
  return fmt::format("{} labels, and as number {} {}", labels.size(), i + 1,
                     i < labels.size() ? labels[i].dump(-1, ' ', true) : "none");
}

/// Whether the run that wrote it skipped data when it resumed: then its place in the data is less than its
/// step.
bool skips_data(FileSystem& fs, const std::string& folder) {
  const auto arguments = read_arguments(fs, folder);
  return arguments && arguments->is_object() &&
         arguments->value("ignore_data_skip", nlohmann::json()) == true;
}

}  // namespace

std::optional<ConfigDifference> config_difference(FileSystem& fs, const std::string& folder,
                                                  const AutoModel& model) {
  const std::string path = join_path(folder, "config.json");
  if (!fs.exists(path)) return {};
  const ModelConfig config = read_model_config(fs, folder);
  const bool own = fs.exists(join_path(folder, kStateFile));
  const nlohmann::json there = settings_of(
                           config, *config.json, own,
                           model.labels.empty() ? std::vector<std::string>() : config_labels(config)),
                       here = settings_of(model.config, saved_config(model), own, model.labels);
  const std::string key = key_that_differs(there, here);
  if (key.empty()) return {};
  const auto text = [&](const nlohmann::json& settings, const nlohmann::json& others) {
    if (!settings.contains(key)) return std::string("its default");
    const nlohmann::json& value = settings[key];
    return value.is_array() && value.size() > kFew ? first_other(value, others.value(key, nlohmann::json()))
                                                   : value.dump(-1, ' ', true);
  };
  return ConfigDifference{path, key, text(there, here), text(here, there)};
}

void check_config(FileSystem& fs, const std::string& folder, const AutoModel& model) {
  if (const auto found = config_difference(fs, folder, model))
    fail(ErrorCode::kInvalidData,
         "{}: \"{}\": found {}, the model of this run has {}: a checkpoint goes on with the model that it is "
         "of; take the same --model_name_or_path, --config_name and data, or train from the beginning with "
         "another --output_dir or with --overwrite_output_dir",
         found->path, found->key, found->there, found->here);
}

void check_progress(const std::string& folder, const TrainerState& state, int64_t max_steps) {
  const std::string path = join_path(folder, kTrainerStateFile);
  const int64_t most = state.max_steps > 0 ? state.max_steps : max_steps;
  if (state.global_step > most)
    fail(ErrorCode::kInvalidData, "{}: \"global_step\": found {}, expected {} at most, {}; {}", path,
         state.global_step, most, state.max_steps > 0 ? "its max_steps" : "the updates of this run",
         kTakeAWholeOne);
  if (state.num_train_epochs > 0 && state.epoch > static_cast<double>(state.num_train_epochs))
    fail(ErrorCode::kInvalidData, "{}: \"epoch\": found {}, expected {} at most, its num_train_epochs; {}",
         path, state.epoch, state.num_train_epochs, kTakeAWholeOne);
  const int64_t best =
      state.best_model_checkpoint ? checkpoint_step(file_name(*state.best_model_checkpoint)) : -1;
  if (best > state.global_step)
    fail(ErrorCode::kInvalidData,
         "{}: \"best_model_checkpoint\": found {}, expected one of step {} at most; {}", path,
         *state.best_model_checkpoint, state.global_step, kTakeAWholeOne);
}

void check_run(FileSystem& fs, const std::string& folder, const TrainerState& state, const RunState& run) {
  const std::string path = join_path(folder, kTrainerStateFile);
  if (run.updates_per_epoch <= 0) return;
  // If an epoch's last update is smaller, the fraction of an epoch differs from that of its updates.
  const double last = static_cast<double>(ceil_div(state.global_step, run.updates_per_epoch));
  if (state.epoch <= last && (state.epoch >= last - 1 || skips_data(fs, folder))) return;
  fail(ErrorCode::kInvalidData,
       "{}: \"epoch\": found {}, expected {} to {}: step {} with {} updates per epoch; {}", path, state.epoch,
       std::max(0.0, last - 1), last, state.global_step, run.updates_per_epoch, kTakeAWholeOne);
}

}  // namespace lathe
