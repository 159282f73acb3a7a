// What a run leaves on the disk: checkpoints, the best of them, the model, its state.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>

#include "lathe/io/directory_transaction.h"
#include "lathe/train/python_format.h"
#include "lathe/train/saved_arguments.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

/// Names, each behind the prefix; of many the first few and the last.
std::string listed(const std::vector<std::string>& names, const std::string& prefix) {
  constexpr size_t kMost = 10, kFirst = 3;
  const auto joined = [&](size_t count) {
    const auto end = names.begin() + static_cast<long>(count);
    return prefix + fmt::format("{}", fmt::join(names.begin(), end, ", " + prefix));
  };
  if (names.size() <= kMost) return joined(names.size());
  return fmt::format("{}, … {}{} ({} in all)", joined(kFirst), prefix, names.back(), names.size());
}

/// Lets the ranks go that serve states, whatever comes.  Where that fails, so does what they do next.
class EndOfReads {
 public:
  explicit EndOfReads(const Session* session) : session_(session) {}
  ~EndOfReads() {
    try {
      if (session_ != nullptr) static_cast<void>(session_->end_reads());
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

std::string Trainer::checkpoint_folder(int64_t step) const {
  return join_path(*args_.output_dir, fmt::format("checkpoint-{}", step));
}

std::string Trainer::save_checkpoint(bool only_model) {
  const std::string folder = checkpoint_folder(state_.global_step);
  share_counts();
  course_.saved_this_step = true;
  saving(folder, [&] {
    if (is_main(group()))
      write_checkpoint_to(folder, only_model);
    else if (!only_model)
      session_->serve_states().check();
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

/// What would count as this run's, being of later steps than it begins at, gets another name.
void Trainer::set_aside_other_runs(const std::string& resume_from) {
  if (!is_main(group()) || !args_.output_dir) return;
  std::vector<std::string> names;
  Status status;
  for (const std::string& folder : checkpoints(fs_, *args_.output_dir)) {
    const std::string name = file_name(folder);
    std::error_code error;  // set where one of them is not there
    if (checkpoint_step(name) <= course_.first_step ||
        std::filesystem::equivalent(folder, resume_from, error))
      continue;
    const std::string aside = join_path(*args_.output_dir, kSetAside + name);
    status = remove_folder(fs_, aside);
    if (status.ok()) status = rename_folder(fs_, folder, aside, state_files());
    if (!status.ok()) break;
    names.push_back(name);
  }
  if (!names.empty())
    say(LogLevel::kWarning,
        fmt::format("{}: {}: not of this run, which begins after step {}: renamed to {}, "
                    "which may be deleted",
                    *args_.output_dir, listed(names, ""), course_.first_step, listed(names, kSetAside)));
  status.check();
}

int64_t Trainer::checkpoints_to_come(const Plan& plan) const {
  if (args_.save_strategy == "no" || course_.first_step >= plan.max_steps) return 0;
  int64_t count = 1;  // of "best" nobody knows
  if (args_.save_strategy == "epoch") count = plan.epochs - course_.first_step / plan.updates_per_epoch;
  if (args_.save_strategy == "steps" && state_.save_steps > 0)  // 0: at the end alone
    count = 1 + (plan.max_steps - 1) / state_.save_steps - course_.first_step / state_.save_steps;
  const int64_t limit = args_.save_total_limit.value_or(0);
  if (limit <= 0) return count;
  const int64_t best = limit == 1 && args_.load_best_model_at_end ? 1 : 0;
  const int64_t there = std::ssize(checkpoints(fs_, *args_.output_dir));
  return std::min(count, std::max<int64_t>(1, limit + best + 1 - there));
}

void Trainer::warn_of_space(const Plan& plan) const {
  if (!is_main(group()) || !args_.output_dir) return;
  Result<uint64_t> free = fs_.free_bytes(*args_.output_dir);
  if (!free.ok()) return;  // nobody knows
  const int64_t count = checkpoints_to_come(plan);
  const auto bytes = [&](bool only_model) {
    return static_cast<double>(checkpoint_bytes(model_, *session_, only_model));
  };
  const double wanted = static_cast<double>(count) * bytes(args_.save_only_model) + bytes(true);
  if (static_cast<double>(free.value()) >= wanted) return;
  constexpr double kMega = 1 << 20;
  say(LogLevel::kWarning,
      fmt::format(
          "{}: found {:.1f} MB free on the disk, {}the model {} {:.1f} MB at most; make room in time"
          "{}, or the run ends where it is full",
          *args_.output_dir, static_cast<double>(free.value()) / kMega,
          count == 0 ? "" : fmt::format("{} checkpoint{} and ", count, count == 1 ? "" : "s"),
          count == 0 ? "takes" : "take", wanted / kMega,
          count == 0 ? "" : " or save less (--save_total_limit, --save_only_model, --save_strategy)"));
}

/// Deletes the oldest beyond save_total_limit; the best one stays.  Source: transformers'
/// _sorted_checkpoints.
void Trainer::rotate_checkpoints() {
  if (!is_main(group()) || !args_.save_total_limit || *args_.save_total_limit <= 0 || !args_.output_dir)
    return;
  std::vector<std::string> all = checkpoints(fs_, *args_.output_dir);
  int64_t limit = *args_.save_total_limit;
  const std::string best = state_.best_model_checkpoint.value_or("");
  if (limit == 1 && args_.load_best_model_at_end && !all.empty() && !best.empty() && all.back() != best)
    limit = 2;
  for (const std::string& folder : all) {
    if (static_cast<int64_t>(checkpoints(fs_, *args_.output_dir).size()) <= limit) break;
    if (folder == best || folder == all.back()) continue;
    remove_folder(fs_, folder, state_files()).check();
  }
}

/// Of the two that a limit of 1 leaves while a run may be stopped, the last and the best, the best stays.
/// Source: the end of transformers' Trainer._inner_training_loop.
void Trainer::keep_best_checkpoint() {
  if (!is_main(group()) || args_.save_total_limit != 1 || !args_.output_dir) return;
  const std::vector<std::string> all = checkpoints(fs_, *args_.output_dir);
  const std::string best = state_.best_model_checkpoint.value_or("");
  if (std::find(all.begin(), all.end(), best) == all.end()) return;  // none, or that of another folder
  for (const std::string& folder : all)
    if (folder != best) remove_folder(fs_, folder, state_files()).check();
}

void Trainer::load_best_model() {
  if (!state_.best_model_checkpoint || !fs_.is_directory(*state_.best_model_checkpoint)) {
    say(LogLevel::kWarning, "there is no best checkpoint to load; the last weights stay");
    return;
  }
  const auto checkpoint = open_checkpoint(fs_, *state_.best_model_checkpoint);
  const LoadReport report = load_parameters(
      *model_.model, *checkpoint, [&](int i, std::span<const float> v) { session_->write_parameter(i, v); });
  say(LogLevel::kInfo,
      fmt::format("loaded the best model from {} (score {}){}", *state_.best_model_checkpoint,
                  python_repr(*state_.best_metric), to_string(report, *model_.model, "")));
}

void Trainer::save_model(const std::string& folder) {
  if (folder.empty()) fail(ErrorCode::kUsage, "save_model: found \"\", wants a folder");
  if (!is_main(group())) return;
  saving(folder, [&] {
    write_model(fs_, folder, model_, *session_, args_.save_safetensors).check();
    write_arguments(fs_, folder, args_, backend_.info().kind).check();
  });
}

void Trainer::save_model_alone() {
  // Where the last step is the best its checkpoint is the one that failed, and its weights are here.
  if (args_.load_best_model_at_end && state_.best_global_step != state_.global_step) load_best_model();
  save_model(args_.output_dir.value_or(""));
}

void Trainer::save_state() {
  if (!is_main(group())) return;
  fs_.write_atomic(join_path(args_.output_dir.value_or("."), "trainer_state.json"), to_json_text(state_))
      .check();
}

}  // namespace lathe
