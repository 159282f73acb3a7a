#pragma once
#include "lathe/engine/session.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// Errors: kUnsupported, naming what it takes, if the device has no products of fp8.
void check_fp8(const Backend& backend);

/// Makes the arguments what validate_for_trainer leaves, whose notices are for who gives them and said there
/// (hf::Prepared, the parser of the command line), and with "split_batches" batches those of one rank.
/// Errors: kUsage for what does not fit the head, the data or the processes; kUnsupported for what the device
/// lacks.
void check_trainer_arguments(TrainingArguments& args, const Backend& backend, Problem problem, bool trains,
                             bool evaluates);

/// The session that they ask for.
Session::Options session_options(const AutoModel& model, const TrainingArguments& args);

}  // namespace lathe
