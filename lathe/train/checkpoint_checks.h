#pragma once
#include <optional>
#include <string>

#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What must fit in a checkpoint before a run continues from it, besides its bytes (whole_checkpoint.h checks
/// those).
/// Errors: kInvalidData, naming the file, the key, and both values.

/// The first setting in which its config.json makes another model than the one that is trained here.
struct ConfigDifference {
  std::string path, key;
  std::string there, here;  ///< both values, as text
};
/// Compares what the weights do not show, such as heads, activation and dropout, and in Lathe's own
/// checkpoints the task and the names of the labels.
std::optional<ConfigDifference> config_difference(FileSystem& fs, const std::string& folder,
                                                  const AutoModel& model);
/// Refuses a checkpoint that has one.
void check_config(FileSystem& fs, const std::string& folder, const AutoModel& model);

/// Its state is possible for a run. max_steps: of the run that continues.
void check_progress(const std::string& folder, const TrainerState& state, int64_t max_steps);

/// Its epoch fits its step, by what Lathe kept about the run.
void check_run(FileSystem& fs, const std::string& folder, const TrainerState& state, const RunState& run);

}  // namespace lathe
