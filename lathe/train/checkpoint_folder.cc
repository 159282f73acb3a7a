#include "lathe/train/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lathe/io/directory_transaction.h"
#include "lathe/io/leftovers.h"
#include "lathe/train/checkpoint.h"

namespace lathe {
namespace {

/// If there are many names, the first few and the last.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10, kFirst = 3;
  const auto joined = [&](size_t count) {
    return fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(count), ", "));
  };
  if (names.size() <= kMost) return joined(names.size());
  return fmt::format("{}, … {} ({} in all)", joined(kFirst), names.back(), names.size());
}

/// `path`, or the first of path-2, path-3 … that is free.
std::string unused(const std::string& path) {
  std::string found = path;
  std::error_code ignored;
  for (int i = 2; std::filesystem::exists(std::filesystem::symlink_status(found, ignored)); ++i)
    found = fmt::format("{}-{}", path, i);
  return found;
}

}  // namespace

std::string CheckpointFolder::at_step(int64_t step) const {
  return join_path(*args_.output_dir, fmt::format("checkpoint-{}", step));
}

std::vector<std::string> CheckpointFolder::clear_leftovers() const {
  const Leftovers found = lathe::clear_leftovers(fs_, *args_.output_dir);
  if (!found.renamed.empty())
    warn_(fmt::format("{}: a run was killed while it replaced {}: what was there before has its name again",
                      *args_.output_dir, listed(found.renamed)));
  if (!found.removed.empty())
    warn_(fmt::format("{}: removed what a killed run left: {}", *args_.output_dir, listed(found.removed)));
  found.status.check();
  return found.unproven;
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
  std::vector<std::string> names, new_names;
  Status status;
  for (const std::string& folder : checkpoints(fs_, *args_.output_dir)) {
    const std::string name = file_name(folder);
    std::error_code error;  // set where one of them is not there
    if (checkpoint_step(name) <= first_step || std::filesystem::equivalent(folder, resume_from, error))
      continue;
    const std::string aside = unused(join_path(*args_.output_dir, kSetAside + name));
    status = rename_folder(fs_, folder, aside, state_files());
    if (!status.ok()) break;
    names.push_back(name);
    new_names.push_back(file_name(aside));
  }
  if (!names.empty())
    warn_(
        fmt::format("{}: {}: not of this run, which begins after step {}: renamed to {}, "
                    "which may be deleted",
                    *args_.output_dir, listed(names), first_step, listed(new_names)));
  status.check();
}

void CheckpointFolder::warn_of_space(int64_t to_come, uint64_t bytes_each, uint64_t model_bytes) const {
  Result<uint64_t> free = fs_.free_bytes(*args_.output_dir);
  if (!free.ok()) return;  // not known
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

std::vector<std::string> CheckpointFolder::real_checkpoints() const {
  std::vector<std::string> all = checkpoints(fs_, *args_.output_dir);
  std::erase_if(all, [&](const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::is_symlink(folder, ignored) ||
           !fs_.exists(join_path(folder, "trainer_state.json"));
  });
  return all;
}

void CheckpointFolder::rotate(const std::optional<std::string>& best) const {
  int64_t limit = args_.save_total_limit.value_or(0);
  if (limit <= 0) return;
  const std::vector<std::string> all = real_checkpoints();
  if (limit == 1 && args_.load_best_model_at_end && !all.empty() && best && all.back() != best) limit = 2;
  for (const std::string& folder : all) {
    if (std::ssize(real_checkpoints()) <= limit) break;
    if (folder == best || folder == all.back()) continue;
    remove_folder(fs_, folder, state_files()).check();
  }
}

void CheckpointFolder::keep_best(const std::optional<std::string>& best) const {
  if (args_.save_total_limit != 1) return;
  const std::vector<std::string> all = real_checkpoints();
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
  // Spelled as `checkpoints` spells it, so that it is found among those that may be deleted.
  std::error_code error;
  const bool own = args_.output_dir && std::filesystem::equivalent(*found, places.back(), error) && !error;
  return own ? places.back() : *found;
}

bool is_set_aside(const std::string& name) {
  if (!name.starts_with(kSetAside)) return false;
  const std::string of = name.substr(std::string_view(kSetAside).size());
  if (checkpoint_step(of) >= 0) return true;
  const size_t dash = of.rfind('-');
  const std::string number = of.substr(dash + 1);
  return dash != std::string::npos && !number.empty() && number.size() < 10 &&
         number.find_first_not_of("0123456789") == std::string::npos &&
         checkpoint_step(of.substr(0, dash)) >= 0;
}

}  // namespace lathe
