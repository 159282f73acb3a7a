#include "lathe/train/changed_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/train/python/saved_arguments.h"

namespace lathe {
namespace {

constexpr const char* kFromHere = "counts from the next update on; those made stay as they are";
constexpr const char* kRate =
    "the next update's learning rate is the one that this schedule has at its step; updates made stay";
constexpr const char* kPrecision =
    "the next updates are computed so; weights and the optimizer's state go on";
constexpr const char* kEvaluations = "counts in the evaluations to come, changes no weight";
constexpr const char* kMemory = "changes memory and time only";
constexpr const char* kBatches =
    "the next updates take other batches; the place in the data is counted anew from the step";
constexpr const char* kBest =
    "evaluations to come count by it; the best value so far stays the one to be better than";

/// What does not simply count from the next update on.
struct Effect {
  std::string_view name;
  const char* text;
};
constexpr Effect kEffects[] = {
    {"lr_scheduler_type", kRate},
    {"lr_scheduler_kwargs", kRate},
    {"warmup_steps", kRate},
    {"warmup_ratio", kRate},
    {"per_device_train_batch_size", kBatches},
    {"gradient_accumulation_steps", kBatches},
    {"dataloader_drop_last", kBatches},
    {"train_sampling_strategy",
     "another order of the data from here on: the rest of this epoch may have "
     "samples again, and leave others out"},
    {"data_seed",
     "another order of the data from here on: the rest of this epoch may have samples again, and "
     "leave others out"},
    {"seed",
     "other dropout masks from here on and, without --data_seed, another order of the data; the "
     "weights drawn at the start stay"},
    {"optim", "changes nothing: both are the same optimizer here"},
    {"bf16", kPrecision},
    {"fp16", kPrecision},
    {"fp8", kPrecision},
    {"tf32", kPrecision},
    {"bf16_full_eval", kEvaluations},
    {"fp16_full_eval", kEvaluations},
    {"int8", kEvaluations},
    {"activation_checkpointing", kMemory},
    {"activation_checkpointing_kwargs", kMemory},
    {"gradient_checkpointing", kMemory},
    {"gradient_checkpointing_kwargs", kMemory},
    {"auto_find_batch_size", "with it the batch size is that of the checkpoint"},
    {"label_names", "changes nothing"},
    {"metric_for_best_model", kBest},
    {"greater_is_better", kBest},
};

/// Whether a schedule that follows a metric goes on from a rate of this name.
bool goes_on(const GoingOn& at, std::string_view name) {
  if (at.metric_schedule == nullptr || at.metric_schedule->is_null()) return false;
  return name == "learning_rate" || (name == "head_learning_rate" && at.metric_schedule->contains("head"));
}

std::string effect_of(std::string_view name, const TrainingArguments& here, const GoingOn& at) {
  const auto found = std::find_if(std::begin(kEffects), std::end(kEffects),
                                  [&](const Effect& effect) { return effect.name == name; });
  const char* text = found == std::end(kEffects) ? kFromHere : found->text;
  if (at.over) return text == kEvaluations ? text : "changes nothing: there is no update left to make";
  if (name == "num_train_epochs" || name == "max_steps")
    return at.max_steps == at.state.max_steps
               ? fmt::format("changes nothing: the run ends at step {} as before", at.max_steps)
               : fmt::format(
                     "trains to step {} instead of {}, and the learning rate's schedule ends there, "
                     "too; updates made stay",
                     at.max_steps, at.state.max_steps);
  if (MetricSchedule::is(here.lr_scheduler_type) && goes_on(at, name))
    return "changes nothing now: the schedule goes on with the rate that its evaluations have led to";
  return text;
}

}  // namespace

std::vector<std::string> changed_arguments(FileSystem& fs, const std::string& checkpoint,
                                           const TrainingArguments& here, const GoingOn& at,
                                           const std::vector<std::string>& without) {
  std::vector<std::string> lines;
  try {
    for (const ArgumentDifference& found : argument_differences(fs, checkpoint, here))
      if (std::find(without.begin(), without.end(), found.name) == without.end())
        lines.push_back(fmt::format("{} {} there and {} here ({})", found.name, found.there, found.here,
                                    effect_of(found.name, here, at)));
  } catch (const Error& error) {
    lines.push_back(fmt::format("not known ({})", error.what()));
  }
  return lines;
}

}  // namespace lathe
