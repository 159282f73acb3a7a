// What a run leaves on the disk: checkpoints, the best of them, the model, its state.
#include <fmt/format.h>

#include <new>

#include "lathe/text/python_format.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

/// Lets the ranks go that serve states, whatever comes.  Where that fails, so does what they do next.
class EndOfReads {
 public:
  explicit EndOfReads(const Session* session) : session_(session) {}
  ~EndOfReads() {
    try {
      if (session_ != nullptr) static_cast<void>(session_->parameters().end_reads());
    } catch (...) {  // memory ended, most likely
    }
  }
  EndOfReads(const EndOfReads&) = delete;
  EndOfReads& operator=(const EndOfReads&) = delete;

 private:
  const Session* session_;
};

/// Runs what saves into a folder.  Memory that ends in it is no matter of the batch, as it is elsewhere.
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

}  // namespace

CheckpointFolder Trainer::checkpoint_folder() const {
  return {fs_, args_, [this](const std::string& text) { say(LogLevel::kWarning, text); }};
}

void Trainer::take_output_folder() {
  note_.reset();
  if (!fs_.is_directory(*args_.output_dir)) return;
  const std::vector<std::string> left = checkpoint_folder().clear_leftovers();
  if (!left.empty())
    say(LogLevel::kWarning,
        fmt::format("{}: {} may be left of a killed run, but no note (.tmp-lathe-PID) of it says so: not "
                    "touched; they may be deleted if they are not yours",
                    *args_.output_dir, fmt::join(left, ", ")));
  note_.emplace(fs_, *args_.output_dir);
}

void Trainer::hold_descriptors() {
  if (reserve_.take() || descriptors_are_short_) return;
  descriptors_are_short_ = true;
  say(LogLevel::kWarning,
      fmt::format("fewer than {} file descriptors are free, which a checkpoint may need: raise the limit "
                  "(ulimit -n), or look for files that are opened and not closed",
                  DescriptorReserve::kCount));
}

std::string Trainer::where_to_go_on() const {
  const std::string last = args_.output_dir ? checkpoint_to_resume(fs_, *args_.output_dir) : "";
  return last.empty() ? "There is no checkpoint yet." : "Last good checkpoint: " + last;
}

void Trainer::save_if_due(const Plan& plan, bool epoch_end, bool better) {
  const bool due = args_.save_strategy == "best"
                       ? better
                       : is_due(plan, args_.save_strategy, state_.save_steps, epoch_end);
  if (!due || !args_.output_dir) return;
  collect(0);
  // The best step has a checkpoint only where one was due at that step: until then the one before it stays
  // the best that can be loaded.  What a stop saves is none of them, or the run that goes on would end with
  // another model than one that never stopped.  Source: transformers' Trainer._save_checkpoint.
  if (state_.best_global_step == state_.global_step)
    state_.best_model_checkpoint = checkpoint_folder().at_step(state_.global_step);
  save_checkpoint(args_.save_only_model);
  if (!keeps_checkpoints()) return;
  checkpoint_folder().rotate(state_.best_model_checkpoint);
  hold_descriptors();  // before a callback can take them
}

std::string Trainer::save_checkpoint(bool only_model) {
  reserve_.release();
  const std::string folder = checkpoint_folder().at_step(state_.global_step);
  share_counts();
  course_.saved_this_step = true;
  saving(folder, [&] {
    if (is_main(group()))
      write_checkpoint_to(folder, only_model);
    else if (!only_model)
      session_->parameters().serve_states().check();
  });
  if (group() != nullptr) group()->barrier().check();  // who goes on may read it
  return folder;
}

void Trainer::write_checkpoint_to(const std::string& folder, bool only_model) {
  const EndOfReads end(only_model ? nullptr : session_.get());
  const int64_t applied = state_.global_step - run_.skipped_updates;
  const OptimizerProgress progress{.applied = applied,
                                   .schedule_step = applied,
                                   .base_learning_rate = args_.learning_rate,
                                   .learning_rate = next_learning_rate(),
                                   .fused = args_.optim == "adamw_torch_fused"};
  const CheckpointContent content{.model = model_,
                                  .session = *session_,
                                  .state = state_,
                                  .run = run_,
                                  .optimizer = progress,
                                  .args = args_,
                                  .device = backend_.info().kind,
                                  .only_model = only_model,
                                  .fp16 = args_.fp16};
  write_checkpoint(fs_, folder, content).check();
}

int64_t Trainer::checkpoints_to_come(const Plan& plan) const {
  if (args_.save_strategy == "no" || course_.first_step >= plan.max_steps) return 0;
  int64_t count = 1;  // of "best" nobody knows
  if (args_.save_strategy == "epoch") count = plan.epochs - course_.first_step / plan.updates_per_epoch;
  if (args_.save_strategy == "steps" && state_.save_steps > 0)  // 0: at the end alone
    count = 1 + (plan.max_steps - 1) / state_.save_steps - course_.first_step / state_.save_steps;
  return count;
}

void Trainer::load_best_model() {
  if (!state_.best_model_checkpoint || !fs_.is_directory(*state_.best_model_checkpoint)) {
    say(LogLevel::kWarning, "there is no best checkpoint to load; the last weights stay");
    return;
  }
  check_best_model(*state_.best_model_checkpoint);
  const auto checkpoint = open_checkpoint(fs_, *state_.best_model_checkpoint);
  const LoadReport report = load_parameters(*model_.model, *checkpoint, [&](int i, std::span<const float> v) {
    session_->parameters().write(i, v);
  });
  say(LogLevel::kInfo,
      fmt::format("loaded the best model from {} (score {}){}", *state_.best_model_checkpoint,
                  python_repr(*state_.best_metric), to_string(report, *model_.model, "")));
}

void Trainer::save_model(const std::string& folder) {
  if (folder.empty()) fail(ErrorCode::kUsage, "save_model: found \"\", wants a folder");
  if (!is_main(group())) return;
  const std::string others =
      join_path(folder, args_.save_safetensors ? "pytorch_model.bin" : "model.safetensors");
  const bool replaces = fs_.exists(others);
  saving(folder, [&] {
    const LeftoversNote note(fs_, folder);
    write_model(fs_, folder, model_, session_->parameters(), args_.save_safetensors).check();
    write_arguments(fs_, folder, args_, backend_.info().kind).check();
  });
  if (replaces && !fs_.exists(others))
    say(LogLevel::kInfo, fmt::format("{}: removed: the folder holds another model now", others));
}

void Trainer::save_model_alone() {
  // Where the last step is the best its checkpoint is the one that failed, and its weights are here.
  if (finished() && args_.load_best_model_at_end && state_.best_global_step != state_.global_step)
    load_best_model();
  save_model(args_.output_dir.value_or(""));
}

void Trainer::save_state() {
  if (!is_main(group())) return;
  fs_.write_atomic(join_path(args_.output_dir.value_or("."), kTrainerStateFile), to_json_text(state_))
      .check();
}

}  // namespace lathe
