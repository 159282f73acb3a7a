#pragma once
#include <string>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// Where a run that goes on stands.
struct GoingOn {
  const TrainerState& state;                        ///< of the checkpoint
  int64_t max_steps = 0;                            ///< of the run that goes on
  bool over = false;                                ///< it has no update left to make
  const nlohmann::json* metric_schedule = nullptr;  ///< RunState's: what such a schedule goes on from
};

/// A line for each argument that is not as the checkpoint has it: both values, and what the change does and
/// does not: "learning_rate 5e-05 there and 2e-05 here (…)".  What is left out here: `without`.
std::vector<std::string> changed_arguments(FileSystem& fs, const std::string& checkpoint,
                                           const TrainingArguments& here, const GoingOn& at,
                                           const std::vector<std::string>& without = {});

}  // namespace lathe
