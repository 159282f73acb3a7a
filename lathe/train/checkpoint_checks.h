#pragma once
#include <string>

#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What must fit in a checkpoint before a run continues from it, besides its bytes (whole_checkpoint.h checks
/// those).
/// Errors: kInvalidData, naming the file, the key, and both values.

/// Its config.json makes the model that is trained here.  Checks what the weights do not show, such as heads,
/// activation and dropout, and in Lathe's own checkpoints the names of the labels.
void check_config(FileSystem& fs, const std::string& folder, const AutoModel& model);

/// Its state is possible for a run. max_steps: of the run that continues.
void check_progress(const std::string& folder, const TrainerState& state, int64_t max_steps);

/// Its epoch fits its step, by what Lathe kept about the run.
void check_run(FileSystem& fs, const std::string& folder, const TrainerState& state, const RunState& run);

}  // namespace lathe
