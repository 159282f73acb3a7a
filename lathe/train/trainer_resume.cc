// What a user is to know of a run that goes on from a checkpoint.
#include "lathe/train/checkpoint_checks.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/trainer.h"
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

/// Of the optimizer here, which is the one there.
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

}  // namespace

bool Trainer::check_checkpoint(const std::string& checkpoint) const {
  bool known = false;
  all_or_none(group(), [&] {
    known = check_whole(fs_, checkpoint);
    check_config(fs_, checkpoint, model_);
  });
  if (!known)
    say(LogLevel::kInfo,
        fmt::format("{}: keeps no digests of its files, as checkpoints of older Lathes and of "
                    "Hugging Face's Trainer: whether they are whole is not known",
                    checkpoint));
  return known;
}

void Trainer::check_place(const Plan& plan, const std::string& checkpoint) const {
  all_or_none(group(), [&] {
    const TrainerState state = read_trainer_state(fs_, checkpoint);
    check_progress(checkpoint, state, plan.max_steps);
    if (const auto run = read_run(fs_, checkpoint, state)) check_run(fs_, checkpoint, state, *run);
  });
}

void Trainer::check_best_model(const std::string& checkpoint) const {
  try {
    check_weights_whole(fs_, checkpoint);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidData) throw;
    fail(error.code(),
         "{}: the best model cannot be loaded. The same command without --load_best_model_at_end ends with "
         "the "
         "weights of the last step",
         error.what());
  }
}

void Trainer::warn_of_differences(const Plan& plan, const std::string& checkpoint) const {
  Differences found;
  found.compare("updates per epoch", run_.updates_per_epoch, plan.updates_per_epoch,
                "another place in the data; the same data and batch size keep it");
  found.compare("data seed", run_.data_seed, sampler_options(1).seed,
                "another order of the data; --data_seed or --seed sets it");
  found.compare("seed", run_.seed, static_cast<uint64_t>(args_.seed), "other dropout masks; --seed sets it");
  if (!run_.training_data.empty())  // old checkpoints do not say
    found.compare("training data of", run_.training_data, summary({train_, 1}),
                  "it goes on with other samples");
  if (!found.text().empty())
    say(LogLevel::kWarning, fmt::format("{}: {}: the run goes on, but not as the one that was stopped",
                                        checkpoint, found.text()));
}

void Trainer::say_other_arguments(const std::string& checkpoint) const {
  const std::string found = argument_differences(fs_, checkpoint, args_);
  if (!found.empty())
    say(LogLevel::kInfo, fmt::format("{}: arguments that are not those of this run: {}", checkpoint, found));
}

void Trainer::say_how_python_goes_on(const Plan& plan, const std::string& checkpoint,
                                     const OptimizerProgress& there) const {
  say(LogLevel::kInfo,
      fmt::format("{}: written by Hugging Face's Trainer: weights, optimizer, schedule and place in the data "
                  "go on; dropout does not: its masks come from Lathe's own generator, not from torch's",
                  checkpoint));
  const int64_t accumulation = args_.gradient_accumulation_steps, updates = state_.global_step;
  const int64_t batches = updates % plan.updates_per_epoch * accumulation;  // of the last epoch
  Differences found;
  found.compare("epoch", state_.epoch,
                static_cast<double>(updates / plan.updates_per_epoch) +
                    static_cast<double>(batches) / static_cast<double>(plan.batches_per_epoch),
                "another place in the data; the same data and batch size keep it");
  found.compare("weight decay", there.adamw.weight_decay, args_.weight_decay, "--weight_decay sets it");
  compare_settings(found, there, optimizer_of(args_));
  const bool by_metric = !there.metric_schedule.is_null();
  if (!by_metric) {
    found.compare("learning rate", there.base_learning_rate, args_.learning_rate, "--learning_rate sets it");
    found.compare("step of the schedule", there.schedule_step, there.applied,
                  "the optimizer's counts for the learning rate");
  }
  const auto followed = [](bool metric) { return std::string(metric ? "evaluations" : "updates"); };
  found.compare("learning rate by", followed(by_metric),
                followed(MetricSchedule::is(args_.lr_scheduler_type)), "--lr_scheduler_type sets it");
  if (!found.text().empty())
    say(LogLevel::kWarning, fmt::format("{}: {}: the run goes on, but not as the one that was stopped",
                                        checkpoint, found.text()));
}

}  // namespace lathe
