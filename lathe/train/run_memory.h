#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/log.h"
#include "lathe/engine/base_cache.h"
#include "lathe/engine/session.h"
#include "lathe/train/training_plan.h"

namespace lathe {

/// What of a run must fit into memory.

/// The runs of one update, each as large as any of the run.
std::vector<Work> update_work(const Session& session, const TrainingArguments& args,
                              const TokenizedDataset& data, const TrainingPlan& plan);

/// --auto_find_batch_size: splits micro-batches, so that an update stays what it is, until they fit; the same
/// on all ranks.
void find_batch_size(const Session& session, TrainingArguments& args, const TokenizedDataset& data,
                     const LogSink& say);
/// Takes that of a checkpoint: the sums of a run that goes on are those of the run so far.
void take_batch_size(TrainingArguments& args, int64_t batch_size, const std::string& checkpoint,
                     const LogSink& say);

/// Keeps a frozen base's output for all samples.  Null, and it is said, where that takes more than a quarter
/// of the memory that is free.  when: the base then runs at every so ("epoch").
std::unique_ptr<BaseCache> keep_base_output_of(Session& session, const TokenizedDataset& data,
                                               const std::string& when, const LogSink& say);

}  // namespace lathe
