#include "lathe/train/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"

namespace lathe {

SamplerOptions training_order(const TrainingArguments& args, const TokenizedDataset& data,
                              const ProcessGroup* group) {
  SamplerOptions options;
  options.size = data.size();
  options.batch_size = static_cast<int>(args.per_device_train_batch_size);
  options.accumulation = static_cast<int>(args.gradient_accumulation_steps);
  options.seed = static_cast<uint64_t>(args.data_seed.value_or(args.seed));
  options.drop_last = args.dataloader_drop_last;
  if (group != nullptr) options.rank = group->rank(), options.world_size = group->size();
  options.length_group =
      static_cast<int>(args.per_device_train_batch_size * args.gradient_accumulation_steps);
  if (args.train_sampling_strategy == "sequential") options.strategy = SamplingStrategy::kSequential;
  if (args.train_sampling_strategy == "group_by_length") options.strategy = SamplingStrategy::kGroupByLength;
  if (args.train_sampling_strategy == "batch_rebalance") options.strategy = SamplingStrategy::kBatchRebalance;
  if (!data.unlike_texts.empty())
    options.strategy = SamplingStrategy::kNoDuplicates, options.texts = data.unlike_texts;
  return options;
}

SamplerOptions evaluation_order(const TrainingArguments& args, int64_t samples) {
  SamplerOptions options;
  options.size = samples;
  options.batch_size = static_cast<int>(args.per_device_eval_batch_size);
  options.strategy = SamplingStrategy::kSequential;
  return options;
}

size_t batches_ahead(const TrainingArguments& args) {
  constexpr int64_t kDefault = 2, kMost = 1024;
  if (!args.dataloader_prefetch_factor) return kDefault;
  return static_cast<size_t>(
      std::min(kMost, *args.dataloader_prefetch_factor * std::max<int64_t>(1, args.dataloader_num_workers)));
}

TrainingPlan plan_of(const TrainingArguments& args, const TokenizedDataset* data, const Task& task,
                     const ProcessGroup* group) {
  if (data == nullptr || data->size() == 0)
    fail(ErrorCode::kUsage, "training needs a training data set with at least one sample");
  if (!task.is_labelled(data->tensors))
    fail(ErrorCode::kInvalidData, "training data: found no labels, expected one for every sample");
  TrainingPlan plan;
  plan.batches_per_epoch = Sampler(training_order(args, *data, group), data->lengths()).batches_per_epoch();
  if (plan.batches_per_epoch == 0)
    fail(ErrorCode::kUsage,
         "--dataloader_drop_last leaves no batch: {} samples, batches of {}{}; lower "
         "--per_device_train_batch_size or leave the flag out",
         data->size(), args.per_device_train_batch_size,
         group == nullptr ? "" : fmt::format(" for each of {} processes", group->size()));
  if (args.max_steps <= 0 && args.num_train_epochs == 0)
    fail(
        ErrorCode::kUsage,
        "--num_train_epochs: found 0, expected more than 0, or --max_steps; a run that does not train leaves "
        "out --do_train");
  plan.updates_per_epoch = ceil_div(plan.batches_per_epoch, args.gradient_accumulation_steps);
  if (args.max_steps > 0) {
    plan.max_steps = args.max_steps;
    plan.epochs = ceil_div(plan.max_steps, plan.updates_per_epoch);
  } else {
    plan.max_steps =
        static_cast<int64_t>(std::ceil(args.num_train_epochs * static_cast<double>(plan.updates_per_epoch)));
    plan.epochs = static_cast<int64_t>(std::ceil(args.num_train_epochs));
  }
  return plan;
}

}  // namespace lathe
