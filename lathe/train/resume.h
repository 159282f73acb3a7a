#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/log.h"
#include "lathe/engine/session.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// How a run continues from a checkpoint: what is checked first, on all ranks, and what the user is told.

/// Checks, before anything is read, that the checkpoint is whole.  False: it cannot tell.
/// Errors: those of check_whole, of any rank.
bool check_checkpoint(FileSystem& fs, const std::string& checkpoint, ProcessGroup* group, const LogSink& say);
/// Checks, once the run's length is known, that the checkpoint is at a place where a run can be.
void check_place(FileSystem& fs, const std::string& checkpoint, const TrainingPlan& plan,
                 ProcessGroup* group);

/// A checkpoint, and the run that is to go on from it.
struct Resumption {
  FileSystem& fs;
  const std::string& checkpoint;
  const TrainingArguments& args;
  const TrainingPlan& plan;
  bool found = false;  ///< it is the last one in output_dir, and nobody named it
};

/// Whether a run in this state has no update to make.
bool is_over(const TrainerState& state, const TrainingArguments& args, const TrainingPlan& plan);

/// Refuses the checkpoint of another run: one with another model, task or labels or, if nobody named the
/// checkpoint or there is no update to make, with other training data.  To go on from a named one with other
/// data is a way of training that transformers has, too; go_on_from then warns. here: of this run.
/// Errors: kUsage for a checkpoint that was found, else those of check_config and kInvalidData; those of
/// check_trained; of any rank.
void check_identity(const Resumption& resumption, const AutoModel& model, const Session& session,
                    const RunIdentity& here, const LogSink& say);

/// The state with which the checkpoint's run has ended, if it has no update to make and output_dir holds its
/// model and state.
std::optional<TrainerState> finished_state(const Resumption& resumption);

/// Says what each argument that is not as in the checkpoint changes. progress: of the checkpoint.
void say_changes(const Resumption& resumption, const RunProgress& progress,
                 const std::vector<std::string>& without, const LogSink& say);

/// Reads weights, states and `progress`.  Says in what this run differs from the one that was stopped. here:
/// what RunState says about this run's data, seeds and plan.  Errors: those of read_checkpoint.
void go_on_from(const Resumption& resumption, const AutoModel& model, Session& session, const RunState& here,
                bool whole, RunProgress& progress, const LogSink& say);

}  // namespace lathe
