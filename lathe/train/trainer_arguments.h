#pragma once
#include "lathe/engine/session.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// Errors: kUnsupported, naming what it takes, if the device has no products of fp8.
void check_fp8(const Backend& backend);

/// The dtype of activations in evaluations.  *_full_eval concerns those outside of training.  Source:
/// transformers' Trainer.evaluation_loop.
DType evaluation_dtype(const TrainingArguments& args);

/// Brings the arguments into the form that validate_for_trainer leaves; with "split_batches" batches become
/// those of one rank.  The notices are for those who give the arguments, and are shown there (hf::Prepared,
/// the parser of the command line).
/// Errors: kUsage for what does not fit the head, the data or the processes; kUnsupported for what the device
/// lacks.
void check_trainer_arguments(TrainingArguments& args, const Backend& backend, const Task& task, bool trains,
                             bool evaluates);

/// The options of the session that the arguments ask for with this model.
Session::Options session_options(const TrainingArguments& args, const AutoModel& model);

}  // namespace lathe
