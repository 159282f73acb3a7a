#include "lathe/train/run_checkpoints.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"
#include "lathe/text/python_format.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {
namespace {

/// Releases the ranks that serve states, in any case.  If that fails, their next step fails, too.
class EndOfReads {
 public:
  explicit EndOfReads(const Parameters* parameters) : parameters_(parameters) {}
  ~EndOfReads() {
    try {
      if (parameters_ != nullptr) static_cast<void>(parameters_->end_reads());
    } catch (...) {  // usually out of memory
    }
  }
  EndOfReads(const EndOfReads&) = delete;
  EndOfReads& operator=(const EndOfReads&) = delete;

 private:
  const Parameters* parameters_;
};

/// Runs code that saves into a folder.  Running out of memory in it has nothing to do with the batch, unlike
/// elsewhere.
template <typename Save>
void saving(const std::string& folder, const Save& save) {
  try {
    save();
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kMemory,
         "{}: out of memory while it was saved; give this process more. Checkpoints written before are "
         "whole.",
         folder);
  }
}

void check_best(FileSystem& fs, const std::string& checkpoint) {
  try {
    check_weights_whole(fs, checkpoint);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidData) throw;
    fail(error.code(),
         "{}: the best model cannot be loaded. The same command without --load_best_model_at_end ends with "
         "the weights of the last step",
         error.what());
  }
}

/// How many checkpoints a run writes from `first_step` on, before --save_total_limit deletes any.
int64_t checkpoints_to_come(const TrainingArguments& args, const TrainingPlan& plan, int64_t first_step,
                            int64_t save_steps) {
  if (args.save_strategy == "no" || first_step >= plan.max_steps) return 0;
  int64_t count = 1;  // the number of "best" is not known
  if (args.save_strategy == "epoch") count = plan.epochs - first_step / plan.updates_per_epoch;
  if (args.save_strategy == "steps" && save_steps > 0)  // 0: only at the end
    count = 1 + (plan.max_steps - 1) / save_steps - first_step / save_steps;
  return count;
}

}  // namespace

RunCheckpoints::RunCheckpoints(FileSystem& fs, const TrainingArguments& args, const AutoModel& model,
                               Session& session, LogSink say)
    : fs_(fs), args_(args), model_(model), session_(session), say_(std::move(say)) {}

bool RunCheckpoints::keeps() const { return is_main(session_.group()) && args_.output_dir; }

CheckpointFolder RunCheckpoints::folder() const {
  return {fs_, args_, [this](const std::string& text) { say_(LogLevel::kWarning, text); }};
}

std::string RunCheckpoints::where_to_go_on() const {
  const std::string last = args_.output_dir ? checkpoint_to_resume(fs_, *args_.output_dir) : "";
  return last.empty() ? "There is no checkpoint yet." : "Last good checkpoint: " + last;
}

void RunCheckpoints::take_folder() {
  if (!keeps() || !fs_.is_directory(*args_.output_dir)) return;
  const std::vector<std::string> left = folder().clear_leftovers();
  if (!left.empty())
    say_(LogLevel::kWarning,
         fmt::format("{}: {} may be left of a killed run, but no note (.tmp-lathe-PID) of it says so: not "
                     "touched; they may be deleted if they are not yours",
                     *args_.output_dir, fmt::join(left, ", ")));
  note_.emplace(fs_, *args_.output_dir);
}

void RunCheckpoints::make_way(const TrainingPlan& plan, const TrainerState& state,
                              const std::string& resume_from) {
  if (!keeps()) return;
  const Parameters& parameters = session_.parameters();
  folder().set_aside_other_runs(state.global_step, resume_from);
  folder().warn_of_space(checkpoints_to_come(args_, plan, state.global_step, state.save_steps),
                         checkpoint_bytes(model_, parameters, args_.save_only_model),
                         checkpoint_bytes(model_, parameters, true));
}

void RunCheckpoints::hold_descriptors() {
  if (!keeps() || reserve_.take() || descriptors_are_short_) return;
  descriptors_are_short_ = true;
  say_(LogLevel::kWarning,
       fmt::format("fewer than {} file descriptors are free, which a checkpoint may need: raise the limit "
                   "(ulimit -n), or look for files that are opened and not closed",
                   DescriptorReserve::kCount));
}

std::string RunCheckpoints::save(const RunProgress& progress, double learning_rate, bool only_model) {
  reserve_.release();
  const std::string path = folder().at_step(progress.state.global_step);
  saving(path, [&] {
    if (is_main(session_.group()))
      write(path, progress, learning_rate, only_model);
    else if (!only_model)
      session_.parameters().serve_states().check();
  });
  if (session_.group() != nullptr) session_.group()->barrier().check();  // a rank that continues may read it
  return path;
}

void RunCheckpoints::write(const std::string& folder, const RunProgress& progress, double learning_rate,
                           bool only_model) {
  const EndOfReads end(only_model ? nullptr : &session_.parameters());
  const OptimizerProgress optimizer{.applied = progress.applied(),
                                    .schedule_step = progress.applied(),
                                    .base_learning_rate = args_.learning_rate,
                                    .learning_rate = learning_rate,
                                    .fused = args_.optim == "adamw_torch_fused"};
  const CheckpointContent content{.model = model_,
                                  .session = session_,
                                  .state = progress.state,
                                  .run = progress.run,
                                  .optimizer = optimizer,
                                  .args = args_,
                                  .device = session_.backend().info().kind,
                                  .only_model = only_model,
                                  .fp16 = args_.fp16};
  write_checkpoint(fs_, folder, content).check();
}

LoadReport RunCheckpoints::load(const std::string& folder) {
  return load_weights(fs_, folder, model_, session_.parameters());
}

void RunCheckpoints::load_best(const TrainerState& state) {
  if (!state.best_model_checkpoint || !fs_.is_directory(*state.best_model_checkpoint)) {
    say_(LogLevel::kWarning, "there is no best checkpoint to load; the last weights stay");
    return;
  }
  check_best(fs_, *state.best_model_checkpoint);
  const LoadReport report = load(*state.best_model_checkpoint);
  say_(LogLevel::kInfo,
       fmt::format("loaded the best model from {} (score {}){}", *state.best_model_checkpoint,
                   python_repr(*state.best_metric), to_string(report, *model_.model, "")));
}

void RunCheckpoints::save_model(const std::string& folder) {
  if (folder.empty()) fail(ErrorCode::kUsage, "save_model: found \"\", expected a folder");
  if (!is_main(session_.group())) return;
  const std::string others =
      join_path(folder, args_.save_safetensors ? "pytorch_model.bin" : "model.safetensors");
  const bool replaces = fs_.exists(others);
  saving(folder, [&] {
    const LeftoversNote note(fs_, folder);
    write_model(fs_, folder, model_, session_.parameters(), args_.save_safetensors).check();
    write_arguments(fs_, folder, args_, session_.backend().info().kind).check();
  });
  if (replaces && !fs_.exists(others))
    say_(LogLevel::kInfo, fmt::format("{}: removed: the folder holds another model now", others));
}

}  // namespace lathe
