#include "lathe/app/output_folder.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "lathe/core/environment.h"
#include "lathe/io/directory_transaction.h"
#include "lathe/io/leftovers.h"
#include "lathe/report/loss_file.h"
#include "lathe/report/run_facts.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/checkpoint_folder.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

/// Without links, "..", and slashes at the end; what is not there is taken as it is spelled.
stdfs::path resolved(const std::string& path) {
  std::error_code error;
  const stdfs::path absolute = stdfs::absolute(expand_home(path), error);
  const stdfs::path found = stdfs::weakly_canonical(absolute, error);
  const stdfs::path plain = error ? absolute.lexically_normal() : found;
  return plain.has_filename() ? plain : plain.parent_path();
}

bool same(const stdfs::path& a, const stdfs::path& b) {
  std::error_code error;
  return a == b || (stdfs::equivalent(a, b, error) && !error);
}

bool is_below(const stdfs::path& path, const stdfs::path& folder) {
  for (stdfs::path at = path; at.has_relative_path(); at = at.parent_path())
    if (same(at.parent_path(), folder)) return true;
  return false;
}

std::vector<stdfs::path> homes() {
  std::vector<stdfs::path> found;
  const passwd* user = getpwuid(getuid());
  for (const std::string& home : {environment("HOME"), std::string(user == nullptr ? "" : user->pw_dir)})
    if (std::error_code error; !home.empty() && stdfs::is_directory(home, error))
      found.push_back(resolved(home));
  return found;
}

/// Whether a run, of Lathe or of Python's Trainer, has this as its output folder.
bool is_of_a_run(FileSystem& fs, const std::string& folder) {
  const auto holds = [&](const std::string& name) { return fs.exists(join_path(folder, name)); };
  return holds(kRunFile) || holds("trainer_state.json") || !checkpoint_to_resume(fs, folder).empty();
}

/// Whether GLUE's or SQuAD's files lie in it.
bool holds_task_files(FileSystem& fs, const std::string& folder) {
  auto names = fs.list(folder);
  return names.ok() && std::any_of(names.value().begin(), names.value().end(), [](const std::string& name) {
           return name.ends_with(".tsv") || name.ends_with(".tsv.gz") || name.starts_with("train-v") ||
                  name.starts_with("dev-v");
         });
}

/// Whether what the flag names lies in the output folder itself, or is it.
bool is_there(FileSystem& fs, const RunInput& input, const std::string& output) {
  const std::string path = expand_home(input.path);
  if (path.empty() || !fs.exists(path)) return false;
  const stdfs::path found = resolved(path), folder = resolved(output);
  if (input.kind == RunInput::Kind::kDataFile) {
    // A link to it in another folder is not there: files under other names harm neither.
    return same(found.parent_path(), folder) || same(resolved(parent_folder(path)), folder);
  }
  if (!fs.is_directory(path)) return false;
  return same(found, folder) || (input.kind == RunInput::Kind::kDataFolder && is_below(folder, found) &&
                                 holds_task_files(fs, output));
}

void check_input(FileSystem& fs, const TrainingArguments& args, const RunInput& input,
                 const std::function<void(const std::string&)>& warn) {
  const std::string& folder = *args.output_dir;
  if (!is_there(fs, input, folder)) return;
  const bool model = input.kind == RunInput::Kind::kModelFolder;
  if (model && !args.do_train) return;  // an evaluation of a run's model leaves its results there
  const std::string found =
      model ? fmt::format("--output_dir: {} is the folder of {}", folder, input.flag)
            : fmt::format("--output_dir: {} is where the data lie ({} {})", folder, input.flag, input.path);
  if (!args.do_train || is_of_a_run(fs, folder)) {
    if (!model)
      warn(found + ": the files of the run lie among them");
    else if (args.overwrite_output_dir)
      warn(found + ": what is trained takes the place of that model");
    return;
  }
  fail(ErrorCode::kUsage, "{}, {}; give a folder of the run's own, such as {}", found,
       model ? "which the training would write over" : "among which a training's files are not to lie",
       join_path(folder, "out"));
}

}  // namespace

void check_output_folder(FileSystem& fs, const TrainingArguments& args, const std::vector<RunInput>& inputs,
                         const std::function<void(const std::string&)>& warn) {
  const std::string& folder = *args.output_dir;
  const stdfs::path at = resolved(folder);
  const auto refuse = [&](std::string_view what, std::string_view other) {
    fail(ErrorCode::kUsage,
         "--output_dir: {} is {}; a run writes into a folder of its own: give another, such as {}", folder,
         what, other);
  };
  if (same(at, at.root_path())) refuse("the root folder", "/tmp/out");
  for (const stdfs::path& home : homes()) {
    if (same(at, home)) refuse("a home folder", join_path(folder, "out"));
    if (is_below(home, at))
      warn(fmt::format("--output_dir: the home folder {} lies below {}; a folder of the run's own is safer",
                       home.string(), folder));
  }
  if (args.do_train && checkpoint_step(at.filename().string()) >= 0 &&
      fs.exists(join_path(folder, "trainer_state.json")) && !fs.exists(join_path(folder, kRunFile)))
    fail(ErrorCode::kUsage,
         "--output_dir: {} is a checkpoint, which the training would write over; give the folder of its run, "
         "{}, or another",
         folder, at.parent_path().string());
  for (const RunInput& input : inputs) check_input(fs, args, input, warn);
}

bool is_left_over(const std::vector<std::string>& names) {
  const bool ran = std::find(names.begin(), names.end(), kRunFile) != names.end();
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    // A full disk may have taken the folder of TensorBoard's files and no run.json.  It is only added to.
    return is_leftover_name(name) || name == "runs" ||
           (ran && (name == kRunFile || name == kLossFile || name == "report.html" || is_set_aside(name)));
  });
}

void check_writable(FileSystem& fs, const std::string& folder) {
  std::string existing = join_path(parent_folder(folder), file_name(folder));
  std::string why = "there is a file in its path";
  while (!fs.exists(existing) && parent_folder(existing) != existing) {
    std::error_code error;  // set where it is no link
    if (const std::filesystem::path target = std::filesystem::read_symlink(existing, error); !error) {
      why = fmt::format("{} is a link to {}, which is not there", existing, target.string());
      break;
    }
    existing = parent_folder(existing);
  }
  if (fs.is_directory(existing)) {
    const DirectoryTransaction probe(fs, join_path(existing, "probe"));
    if (probe.status().ok()) return;
    why = probe.status().message();
  }
  fail(ErrorCode::kIo,
       "--output_dir: {} is not writable ({}); choose another folder or change its permissions", folder, why);
}

}  // namespace lathe
