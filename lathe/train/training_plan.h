#pragma once
#include <cstdint>

#include "lathe/core/process_group.h"
#include "lathe/data/sampler.h"
#include "lathe/data/tokenized.h"
#include "lathe/models/task_model.h"
#include "lathe/settings/training_arguments.h"

namespace lathe {

/// How long a run is.
struct TrainingPlan {
  int64_t batches_per_epoch = 0, updates_per_epoch = 0, max_steps = 0, epochs = 0;
};

/// group null: one process trains.  Errors: kUsage without training data or an update to make; kInvalidData
/// if the data has no labels.
TrainingPlan plan_of(const TrainingArguments& args, const TokenizedDataset* data, const Task& task,
                     const ProcessGroup* group);

/// The order of the training data, and of data that is evaluated.
SamplerOptions training_order(const TrainingArguments& args, const TokenizedDataset& data,
                              const ProcessGroup* group);
SamplerOptions evaluation_order(const TrainingArguments& args, int64_t samples);
/// Batches that are packed before they are requested.
size_t batches_ahead(const TrainingArguments& args);

}  // namespace lathe
