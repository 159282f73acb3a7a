#pragma once
#include <optional>
#include <string>

#include "lathe/core/log.h"
#include "lathe/engine/session.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// How a run goes on from a checkpoint: what is asked of it first, on all ranks, and what a user is to know.

/// Before anything of it is read: it is whole (false: it does not tell) and of this model.
/// Errors: those of check_whole and check_config, of any rank.
bool check_checkpoint(FileSystem& fs, const std::string& checkpoint, const AutoModel& model,
                      ProcessGroup* group, const LogSink& say);
/// Once the run's length is known: it is at a place where a run can be.
void check_place(FileSystem& fs, const std::string& checkpoint, const TrainingPlan& plan,
                 ProcessGroup* group);

/// Reads weights, states and `progress`, and says what makes this run another one than that which was
/// stopped.  here: what RunState says of this run's data, seeds and plan.  Errors: those of read_checkpoint.
void go_on_from(FileSystem& fs, const std::string& checkpoint, const AutoModel& model, Session& session,
                const TrainingArguments& args, const TrainingPlan& plan, const RunState& here, bool whole,
                RunProgress& progress, const LogSink& say);

}  // namespace lathe
