#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/engine/session.h"
#include "lathe/io/file_system.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/loss_curve.h"
#include "lathe/train/loss_scaler.h"
#include "lathe/train/python/python_checkpoint.h"
#include "lathe/train/run_identity.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What a run needs, besides weights, optimizer state and trainer_state.json, to continue with the same bits.
struct RunState {
  double total_loss = 0;      ///< sum of the losses of all updates that are known
  int64_t loss_updates = 0;   ///< how many; in a checkpoint of Python's Trainer those that were logged
  double loss_since_log = 0;  ///< the same since the last log line
  int64_t updates_since_log = 0;
  int64_t updates_per_epoch = 0;  ///< 0: not known (a checkpoint of Python's Trainer); with another batch
                                  ///< size the position in the data would be another
  uint64_t data_seed = 0, seed = 0;
  RunIdentity identity = {};
  int64_t skipped_updates = 0;  ///< left out because a gradient overflowed: schedule and AdamW did not go on
  LossScaler::State loss_scaler = {};
  nlohmann::json metric_schedule = {};  ///< MetricSchedule::state, null without one
  LossCurve losses = {};                ///< of all updates that are known
  /// Of each rank, with masks: the states of BatchMasks before the masks of the next batch, and now.
  std::vector<std::string> masks = {};
};

/// How far a run is, as its checkpoints say.
struct RunProgress {
  TrainerState state;
  RunState run;
  /// Updates that schedule and optimizer have made.
  int64_t applied() const { return state.global_step - run.skipped_updates; }
};

/// What a checkpoint holds.
struct CheckpointContent {
  const AutoModel& model;
  const Session& session;
  const TrainerState& state;
  const RunState& run;
  OptimizerProgress optimizer;
  const TrainingArguments& args;
  std::string_view device;  ///< the kind that the run is on
  bool only_model = false, fp16 = false;
};

/// Writes `folder` (…/checkpoint-N) completely or not at all.  It holds the model folder, trainer_state.json,
/// training_args.json and .bin and, unless only_model, the files of python_checkpoint.h with the moments, and
/// lathe_state.safetensors with RunState, what the device tuned and the digests of the other files.  Unless
/// only_model the other ranks must be in Parameters::serve_states.  Checks the free space first.  Errors: kIo
/// (disk full, not writable); the earlier content then stays.
Status write_checkpoint(FileSystem& fs, const std::string& folder, const CheckpointContent& content);

/// Upper estimate of the bytes that a checkpoint takes on the disk, without its log history and losses;
/// only_model: of a model folder.
uint64_t checkpoint_bytes(const AutoModel& model, const Parameters& parameters, bool only_model);

/// Writes only the model (weights, configuration, tokenizer) into an existing or new folder, each file
/// completely or not at all. safetensors: model.safetensors, else pytorch_model.bin.  The other of the two is
/// removed, because a folder holds one model.
Status write_model(FileSystem& fs, const std::string& folder, const AutoModel& model,
                   const Parameters& parameters, bool safetensors);

/// Reads a checkpoint back into the session: Lathe's own, or one of Hugging Face's Trainer.  For the latter
/// it returns the optimizer's settings, and RunState holds what can be known. whole: the result of
/// check_whole; what that and checkpoint_checks.h have checked is not checked again.
/// Errors: kNotFound if there is none; kInvalidData if it belongs to another model; kUnsupported if its
/// format is newer; those of read_python_state.
std::optional<OptimizerProgress> read_checkpoint(FileSystem& fs, const std::string& folder,
                                                 const AutoModel& model, Session& session,
                                                 TrainerState& state, RunState& run, bool whole = false);

/// Checks that a checkpoint of Lathe's is of the parameters and the optimizer that are trained here.
/// Errors: kInvalidData; kNotFound.
void check_trained(FileSystem& fs, const std::string& folder, const AutoModel& model, const Session& session);

/// Lets the device choose the kernels that a run of Lathe's had chosen.  Errors: as read_checkpoint.
void adopt_tuning(FileSystem& fs, const std::string& folder, Session& session);

/// How far the run of a checkpoint is.  Errors: kNotFound if there is none; kIo or kInvalidData for its
/// trainer_state.json.
TrainerState read_trainer_state(FileSystem& fs, const std::string& folder);

/// What Lathe kept about the run of that state; nothing for a checkpoint of Hugging Face's Trainer.
/// Errors: kInvalidData, also if it belongs to another step.
std::optional<RunState> read_run(FileSystem& fs, const std::string& folder, const TrainerState& state);

/// The checkpoint with the highest step in a folder; empty if there is none.  Temporary folders never count.
std::string last_checkpoint(FileSystem& fs, const std::string& folder);
/// The last checkpoint that a run can continue from; with --save_only_model there are others.
std::string checkpoint_to_resume(FileSystem& fs, const std::string& folder);
/// The files of a checkpoint without which no run can continue from it.
const std::vector<std::string>& state_files();
/// N for the name "checkpoint-N", −1 for other names.
int64_t checkpoint_step(const std::string& name);
/// The prefix of the name of a checkpoint that another run has set aside.
inline constexpr const char* kSetAside = "old-";
/// All checkpoints, by step.
std::vector<std::string> checkpoints(FileSystem& fs, const std::string& folder);

}  // namespace lathe
