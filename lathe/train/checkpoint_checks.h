#pragma once
#include <string>

#include "lathe/train/auto_model.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What of a checkpoint that is to be gone on from must fit the run, beside its bytes (whole_checkpoint.h).
/// Errors: kInvalidData, naming the file, the key, and both values.

/// Its config.json makes the model that is trained here: what its weights do not show, such as heads,
/// activation and dropout, and in a checkpoint of Lathe's own the names of the labels.
void check_config(FileSystem& fs, const std::string& folder, const AutoModel& model);

/// Its state is one that a run can be in.  max_steps: of the run that goes on.
void check_progress(const std::string& folder, const TrainerState& state, int64_t max_steps);

/// Its epoch is that of its step, by what Lathe kept of the run.
void check_run(FileSystem& fs, const std::string& folder, const TrainerState& state, const RunState& run);

}  // namespace lathe
