#pragma once
#include "lathe/engine/session.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// What several ranks must agree on, exchanged through the session's group.  Without a group all of this does
/// nothing.

/// Checks that all ranks were made for the same run: flags, model, data, weights.  Null data: there is none.
/// Errors: kUsage.
void check_same_run(const Session& session, const AutoModel& model, TrainingArguments args,
                    const TokenizedDataset* train, const TokenizedDataset* evaluated);
/// Checks that all ranks are at the same place of the run.  Errors: kUsage.
void check_same_place(const Session& session, const TrainingPlan& plan, int64_t global_step);
/// Gives all ranks the weights of rank 0.
void take_weights_of_main(Session& session);

}  // namespace lathe
