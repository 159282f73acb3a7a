#include "lathe/train/resume.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lathe/engine/ranks.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/train/checkpoint_checks.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {
namespace {

/// "what X there and Y here (effect)" for each that is not the same.
class Differences {
 public:
  template <typename T>
  void compare(const char* what, const T& there, const T& here, const char* effect) {
    if (there == here) return;
    text_ +=
        fmt::format("{}{} {} there and {} here ({})", text_.empty() ? "" : ", ", what, there, here, effect);
  }
  /// Empty if there is none.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Compares the settings of the optimizer here with those of the one in the checkpoint.
void compare_settings(Differences& found, const OptimizerProgress& there, const OptimizerOptions& here) {
  if (const auto* adamw = std::get_if<AdamWOptions>(&here)) {
    found.compare("beta1", there.adamw.beta1, adamw->beta1, "--adam_beta1 sets it");
    found.compare("beta2", there.adamw.beta2, adamw->beta2, "--adam_beta2 sets it");
    found.compare("epsilon", there.adamw.eps, adamw->eps, "--adam_epsilon sets it");
  } else if (const auto* sgd = std::get_if<SgdOptions>(&here)) {
    found.compare("momentum", there.sgd.momentum, sgd->momentum, "--optim_args sets it");
    found.compare("dampening", there.sgd.dampening, sgd->dampening, "--optim_args sets it");
    found.compare("nesterov", there.sgd.nesterov, sgd->nesterov, "--optim_args sets it");
  }
}

/// Of a checkpoint of Lathe's own.
Differences differences(const RunState& there, const RunState& here) {
  Differences found;
  found.compare("updates per epoch", there.updates_per_epoch, here.updates_per_epoch,
                "another place in the data; the same data and batch size keep it");
  found.compare("data seed", there.data_seed, here.data_seed,
                "another order of the data; --data_seed or --seed sets it");
  found.compare("seed", there.seed, here.seed, "other dropout masks; --seed sets it");
  if (!there.training_data.empty())  // old checkpoints do not say
    found.compare("training data of", there.training_data, here.training_data,
                  "it goes on with other samples");
  return found;
}

/// Of a checkpoint of Python's Trainer, which holds other facts.
Differences differences(const OptimizerProgress& there, const TrainerState& state,
                        const TrainingArguments& args, const TrainingPlan& plan) {
  const int64_t updates = state.global_step;
  const int64_t batches =
      updates % plan.updates_per_epoch * args.gradient_accumulation_steps;  // of the last epoch
  Differences found;
  found.compare("epoch", state.epoch,
                static_cast<double>(updates / plan.updates_per_epoch) +
                    static_cast<double>(batches) / static_cast<double>(plan.batches_per_epoch),
                "another place in the data; the same data and batch size keep it");
  found.compare("weight decay", there.adamw.weight_decay, args.weight_decay, "--weight_decay sets it");
  compare_settings(found, there, optimizer_of(args));
  const bool by_metric = !there.metric_schedule.is_null();
  if (!by_metric) {
    found.compare("learning rate", there.base_learning_rate, args.learning_rate, "--learning_rate sets it");
    found.compare("step of the schedule", there.schedule_step, there.applied,
                  "the optimizer's counts for the learning rate");
  }
  const auto followed = [](bool metric) { return std::string(metric ? "evaluations" : "updates"); };
  found.compare("learning rate by", followed(by_metric), followed(MetricSchedule::is(args.lr_scheduler_type)),
                "--lr_scheduler_type sets it");
  return found;
}

}  // namespace

bool check_checkpoint(FileSystem& fs, const std::string& checkpoint, const AutoModel& model,
                      ProcessGroup* group, const LogSink& say) {
  bool known = false;
  all_or_none(group, [&] {
    known = check_whole(fs, checkpoint);
    check_config(fs, checkpoint, model);
  });
  if (!known)
    say(LogLevel::kInfo,
        fmt::format("{}: keeps no digests of its files, as checkpoints of older Lathes and of "
                    "Hugging Face's Trainer: whether they are whole is not known",
                    checkpoint));
  return known;
}

void check_place(FileSystem& fs, const std::string& checkpoint, const TrainingPlan& plan,
                 ProcessGroup* group) {
  all_or_none(group, [&] {
    const TrainerState state = read_trainer_state(fs, checkpoint);
    check_progress(checkpoint, state, plan.max_steps);
    if (const auto run = read_run(fs, checkpoint, state)) check_run(fs, checkpoint, state, *run);
  });
}

void go_on_from(FileSystem& fs, const std::string& checkpoint, const AutoModel& model, Session& session,
                const TrainingArguments& args, const TrainingPlan& plan, const RunState& here, bool whole,
                RunProgress& progress, const LogSink& say) {
  auto& [state, run] = progress;
  const auto python = read_checkpoint(fs, checkpoint, model, session, state, run, whole);
  if (state.best_model_checkpoint) {
    const auto warn = [&](const std::string& text) { say(LogLevel::kWarning, text); };
    state.best_model_checkpoint =
        CheckpointFolder(fs, args, warn).find_best(*state.best_model_checkpoint, checkpoint);
  }
  if (const std::string others = argument_differences(fs, checkpoint, args); !others.empty())
    say(LogLevel::kInfo, fmt::format("{}: arguments that are not those of this run: {}", checkpoint, others));
  if (python)
    say(LogLevel::kInfo,
        fmt::format("{}: written by Hugging Face's Trainer: weights, optimizer, schedule and place in the "
                    "data go on; dropout does not: its masks come from Lathe's own generator, not from "
                    "torch's",
                    checkpoint));
  const Differences found = python ? differences(*python, state, args, plan) : differences(run, here);
  if (!found.text().empty())
    say(LogLevel::kWarning, fmt::format("{}: {}: the run goes on, but not as the one that was stopped",
                                        checkpoint, found.text()));
}

}  // namespace lathe
