#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/log.h"
#include "lathe/data/lm/batch_masks.h"
#include "lathe/engine/base_cache.h"
#include "lathe/engine/session.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// The parts of a run that must fit into memory.

/// The runs of one update, each as large as the largest of the training.
/// masks: of its batches, null: none.
std::vector<Work> update_work(const Session& session, const TrainingArguments& args,
                              const TokenizedDataset& data, const TrainingPlan& plan,
                              const BatchMasks* masks = nullptr);

/// --auto_find_batch_size: splits micro-batches until they fit, the same on all ranks.  The update stays the
/// same.
void find_batch_size(const Session& session, TrainingArguments& args, const TokenizedDataset& data,
                     const LogSink& say, const BatchMasks* masks = nullptr);
/// Takes the batch size of a checkpoint, because a resumed run must sum as the run did so far.
void take_batch_size(TrainingArguments& args, int64_t batch_size, const std::string& checkpoint,
                     const LogSink& say);

/// Keeps a frozen base's output for all samples.  Returns null, with a message, if that takes more than a
/// quarter of the free memory. when: how often the base then runs ("epoch").
std::unique_ptr<BaseCache> keep_base_output_of(Session& session, const TokenizedDataset& data,
                                               const std::string& when, const LogSink& say);

}  // namespace lathe
