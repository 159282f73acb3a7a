#include "lathe/train/resume.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lathe/engine/ranks.h"
#include "lathe/io/json_file.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/text/python_format.h"
#include "lathe/train/changed_arguments.h"
#include "lathe/train/checkpoint_checks.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/early_stopping.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {
namespace {

/// "what X there and Y here (effect)" for each that is not the same.
class Differences {
 public:
  template <typename T>
  void compare(const char* what, const T& there, const T& here, const char* effect) {
    if (there != here)
      lines_.push_back(fmt::format("{} {} there and {} here ({})", what, there, here, effect));
  }
  void add(std::string line) { lines_.push_back(std::move(line)); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

void say_lines(const LogSink& say, LogLevel level, const std::string& title,
               const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  say(level, title);
  for (const std::string& line : lines) say(level, "  " + line);
}

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
                "another order of the data from here on: the rest of this epoch may have samples again, and "
                "leave others out; --data_seed or --seed sets it");
  found.compare("seed", there.seed, here.seed,
                "other dropout masks from here on; the weights drawn at the start stay; --seed sets it");
  if (const std::string data = data_difference(there.identity, here.identity); !data.empty())
    found.add(data + " (it goes on with other samples)");
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

bool check_checkpoint(FileSystem& fs, const std::string& checkpoint, ProcessGroup* group,
                      const LogSink& say) {
  bool known = false;
  all_or_none(group, [&] { known = check_whole(fs, checkpoint); });
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

bool is_over(const TrainerState& state, const TrainingArguments& args, const TrainingPlan& plan) {
  return state.global_step >= plan.max_steps ||
         (args.early_stopping_patience &&
          EarlyStopping(*args.early_stopping_patience, args.early_stopping_threshold,
                        state.stateful_callbacks)
              .exhausted());
}

namespace {

/// "labels: found A, this run has B", for a checkpoint that was found; empty if there is no difference.
std::string config_text(const Resumption& resumption, const AutoModel& model) {
  const auto found = config_difference(resumption.fs, resumption.checkpoint, model);
  if (!found) return "";
  const std::string what = found->key == "id2label"                                        ? "labels"
                           : found->key == "architectures" || found->key == "problem_type" ? "task"
                                                                                           : found->key;
  return fmt::format("{}: found {}, this run has {}", what, found->there, found->here);
}

/// What check_identity refuses. model, data: the differences, empty if there is none.
void refuse_another_run(const Resumption& resumption, const TrainerState& state, const std::string& model,
                        const std::string& data) {
  const std::string& checkpoint = resumption.checkpoint;
  const bool over = is_over(state, resumption.args, resumption.plan);
  if (model.empty() && (data.empty() || (!resumption.found && !over))) return;
  const std::string differences = model + (model.empty() || data.empty() ? "" : "; ") + data;
  constexpr const char* kNew =
      "give another --output_dir, or --overwrite_output_dir to train from the beginning";
  const bool resumes = resumption.args.resume_from_checkpoint || resumption.args.resume;
  if (resumption.found)
    fail(ErrorCode::kUsage, "--output_dir: {} holds another run ({}): {}; {}{}{}",
         *resumption.args.output_dir, file_name(checkpoint), differences,
         resumes ? "without --resume_from_checkpoint and --resume " : "", kNew,
         model.empty() && !over
             ? fmt::format("; or --resume_from_checkpoint {} to go on from there with these data", checkpoint)
             : "");
  const std::string why = model.empty()
                              ? fmt::format("{} of {} updates are made, none is left to make with these data",
                                            state.global_step, resumption.plan.max_steps)
                              : "a checkpoint goes on with the model that it is of";
  fail(ErrorCode::kInvalidData, "{}: of another run: {}; {}; without --resume_from_checkpoint {}", checkpoint,
       differences, why, kNew);
}

}  // namespace

void check_identity(const Resumption& resumption, const AutoModel& model, const Session& session,
                    const RunIdentity& here, const LogSink& say) {
  const std::string& checkpoint = resumption.checkpoint;
  const bool own_model = is_of_its_run(model.folder, checkpoint);
  RunIdentity there;
  all_or_none(session.group(), [&] {
    if (!resumption.found) check_config(resumption.fs, checkpoint, model);
    const TrainerState state = read_trainer_state(resumption.fs, checkpoint);
    there = read_run(resumption.fs, checkpoint, state).value_or(RunState()).identity;
    std::string difference = resumption.found ? config_text(resumption, model) : "";
    if (difference.empty() && !own_model)  // with other labels the weights of the head are others, too
      difference = model_difference(there, here);
    refuse_another_run(resumption, state, difference, data_difference(there, here));
    check_trained(resumption.fs, checkpoint, model, session);
  });
  std::vector<std::string> unknown;
  if (there.model.empty() && !here.model.empty() && !own_model) unknown.emplace_back("model");
  if (there.data.empty()) unknown.emplace_back("training data");
  if (!unknown.empty())
    say(LogLevel::kInfo,
        fmt::format("{}: keeps no record of its {}: whether they are those of this run is not known",
                    checkpoint, fmt::join(unknown, " and ")));
}

std::optional<TrainerState> finished_state(const Resumption& resumption) {
  FileSystem& fs = resumption.fs;
  const TrainingArguments& args = resumption.args;
  const std::string name = file_name(resumption.checkpoint);
  const std::string folder = args.output_dir.value_or("");
  const std::string path = join_path(folder, kTrainerStateFile);
  std::error_code error;  // set where one of them is not there
  if (!std::filesystem::equivalent(folder, parent_folder(resumption.checkpoint), error) || !fs.exists(path))
    return {};
  try {
    TrainerState state =
        trainer_state_from(parse_python_json(fs.read(path, kLogFileBytes).value(), path), path);
    const std::string last = fmt::format("checkpoint-{}", state.global_step);
    const std::string best = state.best_model_checkpoint ? file_name(*state.best_model_checkpoint) : "";
    // With --save_total_limit 1 only the best checkpoint stays.
    const bool of_this = name == last || (resumption.found && name == best);
    const std::string& kept = args.load_best_model_at_end && !best.empty() ? best : last;
    if (of_this && is_over(state, args, resumption.plan) &&
        holds_model_of(fs, folder, join_path(folder, kept)))
      return state;
  } catch (const Error&) {  // what cannot be read is written anew
  }
  return {};
}

void say_changes(const Resumption& resumption, const RunProgress& progress,
                 const std::vector<std::string>& without, const LogSink& say) {
  const bool over = is_over(progress.state, resumption.args, resumption.plan);
  say_lines(say, LogLevel::kInfo,
            fmt::format("{}: arguments that are not those of this run:", resumption.checkpoint),
            changed_arguments(
                resumption.fs, resumption.checkpoint, resumption.args,
                {progress.state, resumption.plan.max_steps, over, &progress.run.metric_schedule}, without));
}

void go_on_from(const Resumption& resumption, const AutoModel& model, Session& session, const RunState& here,
                bool whole, RunProgress& progress, const LogSink& say) {
  FileSystem& fs = resumption.fs;
  const std::string& checkpoint = resumption.checkpoint;
  const TrainingArguments& args = resumption.args;
  auto& [state, run] = progress;
  const auto python = read_checkpoint(fs, checkpoint, model, session, state, run, whole);
  if (state.best_model_checkpoint) {
    const auto warn = [&](const std::string& text) { say(LogLevel::kWarning, text); };
    state.best_model_checkpoint =
        CheckpointFolder(fs, args, warn).find_best(*state.best_model_checkpoint, checkpoint);
  }
  if (python)
    say(LogLevel::kInfo,
        fmt::format("{}: written by Hugging Face's Trainer: weights, optimizer, schedule and place in the "
                    "data go on; dropout does not: its masks come from Lathe's own generator, not from "
                    "torch's",
                    checkpoint));
  const Differences others =
      python ? differences(*python, state, args, resumption.plan) : differences(run, here);
  say_lines(say, LogLevel::kWarning,
            fmt::format("{}: the run goes on, but not as the one that was stopped:", checkpoint),
            others.lines());
  const std::vector<std::string> said_above = {"seed", "data_seed"};
  say_changes(resumption, progress, python ? std::vector<std::string>() : said_above, say);
}

}  // namespace lathe
