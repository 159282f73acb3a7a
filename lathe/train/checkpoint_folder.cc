#include "lathe/train/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lathe/io/directory_transaction.h"
#include "lathe/train/checkpoint.h"

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

}  // namespace

std::string CheckpointFolder::at_step(int64_t step) const {
  return join_path(*args_.output_dir, fmt::format("checkpoint-{}", step));
}

std::string CheckpointFolder::to_go_on_from() const {
  const std::string found = checkpoint_to_resume(fs_, *args_.output_dir);
  const std::string last = last_checkpoint(fs_, *args_.output_dir);
  if (!found.empty() && found != last)
    warn_(fmt::format("{}: found no optimizer's state, which --save_only_model leaves out: goes on from {}",
                      last, found));
  return found;
}

std::string CheckpointFolder::wanted_to_go_on_from() const {
  const std::string found = to_go_on_from();
  if (!found.empty()) return found;
  const std::string last = last_checkpoint(fs_, *args_.output_dir);
  fail(ErrorCode::kNotFound, "--resume_from_checkpoint: {} holds no checkpoint-N that a run can go on from{}",
       *args_.output_dir,
       last.empty() ? ""
                    : fmt::format("; {} is of --save_only_model, without the optimizer's state: a new run "
                                  "begins with its weights by --model_name_or_path {}",
                                  file_name(last), last));
}

void CheckpointFolder::set_aside_other_runs(int64_t first_step, const std::string& resume_from) const {
  std::vector<std::string> names;
  Status status;
  for (const std::string& folder : checkpoints(fs_, *args_.output_dir)) {
    const std::string name = file_name(folder);
    std::error_code error;  // set where one of them is not there
    if (checkpoint_step(name) <= first_step || std::filesystem::equivalent(folder, resume_from, error))
      continue;
    const std::string aside = join_path(*args_.output_dir, kSetAside + name);
    status = remove_folder(fs_, aside);
    if (status.ok()) status = rename_folder(fs_, folder, aside, state_files());
    if (!status.ok()) break;
    names.push_back(name);
  }
  if (!names.empty())
    warn_(
        fmt::format("{}: {}: not of this run, which begins after step {}: renamed to {}, "
                    "which may be deleted",
                    *args_.output_dir, listed(names, ""), first_step, listed(names, kSetAside)));
  status.check();
}

void CheckpointFolder::warn_of_space(int64_t to_come, uint64_t bytes_each, uint64_t model_bytes) const {
  Result<uint64_t> free = fs_.free_bytes(*args_.output_dir);
  if (!free.ok()) return;  // nobody knows
  int64_t count = to_come;
  const int64_t limit = args_.save_total_limit.value_or(0);
  if (limit > 0) {
    const int64_t best = limit == 1 && args_.load_best_model_at_end ? 1 : 0;
    const int64_t there = std::ssize(checkpoints(fs_, *args_.output_dir));
    count = std::min(count, std::max<int64_t>(1, limit + best + 1 - there));
  }
  const double wanted =
      static_cast<double>(count) * static_cast<double>(bytes_each) + static_cast<double>(model_bytes);
  if (static_cast<double>(free.value()) >= wanted) return;
  constexpr double kMega = 1 << 20;
  warn_(fmt::format(
      "{}: found {:.1f} MB free on the disk, {}the model {} {:.1f} MB at most; make room in time"
      "{}, or the run ends where it is full",
      *args_.output_dir, static_cast<double>(free.value()) / kMega,
      count == 0 ? "" : fmt::format("{} checkpoint{} and ", count, count == 1 ? "" : "s"),
      count == 0 ? "takes" : "take", wanted / kMega,
      count == 0 ? "" : " or save less (--save_total_limit, --save_only_model, --save_strategy)"));
}

void CheckpointFolder::rotate(const std::optional<std::string>& best) const {
  int64_t limit = args_.save_total_limit.value_or(0);
  if (limit <= 0) return;
  const std::vector<std::string> all = checkpoints(fs_, *args_.output_dir);
  if (limit == 1 && args_.load_best_model_at_end && !all.empty() && best && all.back() != best) limit = 2;
  for (const std::string& folder : all) {
    if (static_cast<int64_t>(checkpoints(fs_, *args_.output_dir).size()) <= limit) break;
    if (folder == best || folder == all.back()) continue;
    remove_folder(fs_, folder, state_files()).check();
  }
}

void CheckpointFolder::keep_best(const std::optional<std::string>& best) const {
  if (args_.save_total_limit != 1) return;
  const std::vector<std::string> all = checkpoints(fs_, *args_.output_dir);
  if (std::find(all.begin(), all.end(), best) == all.end()) return;  // none, or that of another folder
  for (const std::string& folder : all)
    if (folder != best) remove_folder(fs_, folder, state_files()).check();
}

std::optional<std::string> CheckpointFolder::find_best(const std::string& recorded,
                                                       const std::string& resume_from) const {
  const std::string name = file_name(recorded);
  std::vector<std::string> places{join_path(parent_folder(resume_from), name), recorded};
  if (args_.output_dir) places.push_back(join_path(*args_.output_dir, name));
  const auto found = std::find_if(places.begin(), places.end(),
                                  [&](const std::string& place) { return fs_.is_directory(place); });
  if (found == places.end()) {
    warn_(fmt::format("{}: the best checkpoint that it names, {}, is not there any more: goes on without one",
                      resume_from, recorded));
    return std::nullopt;
  }
  // Spelled as `checkpoints` spells it, so that it is known again among those that may be deleted.
  std::error_code error;
  const bool own = args_.output_dir && std::filesystem::equivalent(*found, places.back(), error) && !error;
  return own ? places.back() : *found;
}

}  // namespace lathe
