#pragma once
#include <optional>
#include <string>

#include "lathe/core/log.h"
#include "lathe/engine/session.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// How a run continues from a checkpoint: what is checked first, on all ranks, and what the user is told.

/// Checks, before anything is read, that the checkpoint is whole and of this model.  False: it cannot tell
/// whether it is whole.
/// Errors: those of check_whole and check_config, of any rank.
bool check_checkpoint(FileSystem& fs, const std::string& checkpoint, const AutoModel& model,
                      ProcessGroup* group, const LogSink& say);
/// Checks, once the run's length is known, that the checkpoint is at a place where a run can be.
void check_place(FileSystem& fs, const std::string& checkpoint, const TrainingPlan& plan,
                 ProcessGroup* group);

/// Reads weights, states and `progress`.  Says in what this run differs from the one that was stopped. here:
/// what RunState says about this run's data, seeds and plan.  Errors: those of read_checkpoint.
void go_on_from(FileSystem& fs, const std::string& checkpoint, const AutoModel& model, Session& session,
                const TrainingArguments& args, const TrainingPlan& plan, const RunState& here, bool whole,
                RunProgress& progress, const LogSink& say);

}  // namespace lathe
