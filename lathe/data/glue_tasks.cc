#include "lathe/data/glue_tasks.h"

#include <algorithm>
#include <filesystem>

#include "lathe/core/error.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

const std::vector<GlueTask>& task_table() {
  static const std::vector<GlueTask> kTasks = {
      {"cola",
       "sentence",
       "",
       "sentence",
       "",
       "label",
       {"unacceptable", "acceptable"},
       {"matthews_correlation"},
       {"source", "label", "mark", "sentence"}},
      {"mnli",
       "premise",
       "hypothesis",
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       {"accuracy"},
       {}},
      {"mrpc",
       "sentence1",
       "sentence2",
       "#1 String",
       "#2 String",
       "Quality",
       {"not_equivalent", "equivalent"},
       {"accuracy", "f1"},
       {}},
      {"qnli",
       "question",
       "sentence",
       "question",
       "sentence",
       "label",
       {"entailment", "not_entailment"},
       {"accuracy"},
       {}},
      {"qqp",
       "question1",
       "question2",
       "question1",
       "question2",
       "is_duplicate",
       {"not_duplicate", "duplicate"},
       {"accuracy", "f1"},
       {}},
      {"rte",
       "sentence1",
       "sentence2",
       "sentence1",
       "sentence2",
       "label",
       {"entailment", "not_entailment"},
       {"accuracy"},
       {}},
      {"sst2", "sentence", "", "sentence", "", "label", {"negative", "positive"}, {"accuracy"}, {}},
      {"stsb", "sentence1", "sentence2", "sentence1", "sentence2", "score", {}, {"pearson", "spearmanr"}, {}},
      {"wnli",
       "sentence1",
       "sentence2",
       "sentence1",
       "sentence2",
       "label",
       {"not_entailment", "entailment"},
       {"accuracy"},
       {}},
  };
  return kTasks;
}

// "STS-B" and "sts_b" -> "stsb"
std::string plain_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  return out;
}

// Names in a folder, sorted; none if it cannot be listed.
std::vector<std::string> entries_of(const std::string& folder) {
  auto names = real_file_system().list(folder);
  return names.ok() ? std::move(names).value() : std::vector<std::string>();
}

// The file `stem` + extension, else that + .gz, else with `loose` the first name between the two; "" if none.
std::string find_split(const std::string& folder, const std::string& stem, const std::string& extension,
                       bool loose) {
  const auto names = entries_of(folder);
  const std::string packed = extension + ".gz";
  for (const std::string& ending : {extension, packed})
    if (std::binary_search(names.begin(), names.end(), stem + ending))
      return join_path(folder, stem + ending);
  if (!loose) return "";
  for (const std::string& name : names)
    if (name.starts_with(stem) && (name.ends_with(extension) || name.ends_with(packed)))
      return join_path(folder, name);
  return "";
}

TaskFiles files_in(const GlueTask& task, const std::string& folder) {
  TaskFiles files{.task = task.name};
  files.train = find_split(folder, "train", ".tsv", false);
  const auto add = [&](std::vector<std::string>& to, const std::string& stem, bool loose) {
    if (std::string path = find_split(folder, stem, ".tsv", loose); !path.empty())
      to.push_back(std::move(path));
  };
  if (task.name == "mnli") {
    for (const char* part : {"matched", "mismatched"}) {
      add(files.validation, std::string("dev_") + part, false);
      add(files.test, std::string("test_") + part, false);
    }
  } else {
    add(files.validation, "dev", true);
    add(files.test, "test", true);
  }
  return files;
}

bool has_any(const TaskFiles& files) {
  return !files.train.empty() || !files.validation.empty() || !files.test.empty();
}

std::string list_folders(const std::vector<std::string>& folders) {
  std::string out;
  for (const std::string& folder : folders) out += (out.empty() ? "" : ", ") + folder;
  return (out.empty() ? "nowhere" : out) + "\nGive the folder with --data_dir or set LATHE_DATA_DIR";
}

// The folder itself, its folders that match the name, and those of its folder `glue`.
void add_candidates(const std::string& root, std::string_view name, std::vector<std::string>& out) {
  if (root.empty()) return;
  out.push_back(root);
  for (const std::string& base : {root, join_path(root, "glue")}) {
    bool found = false;
    for (const std::string& entry : entries_of(base)) {
      if (plain_name(entry) != name || !real_file_system().is_directory(join_path(base, entry))) continue;
      out.push_back(join_path(base, entry));
      found = true;
    }
    if (!found) out.push_back(join_path(base, std::string(name)));
  }
}

[[noreturn]] void fail_missing(const TaskFiles& files, const std::string& file) {
  fail(ErrorCode::kNotFound, "{}: no {}; looked in {}", files.task, file, list_folders(files.looked_in));
}

/// MNLI's mismatched file is the second one: what comes of the first bears the matched one's name.
const std::vector<std::string>& require(const TaskFiles& files, const std::vector<std::string>& found,
                                        const std::string& stem) {
  const bool mnli = files.task == "mnli";
  if (found.empty() ||
      (mnli && std::filesystem::path(found[0]).filename().string().find("_mismatched") != std::string::npos))
    fail_missing(files, stem + (mnli ? "_matched.tsv" : ".tsv"));
  return found;
}

}  // namespace

const GlueTask& glue_task(std::string_view name) {
  const std::string wanted = plain_name(name);
  std::string known;
  for (const GlueTask& task : task_table()) {
    if (task.name == wanted) return task;
    known += " " + task.name;
  }
  fail(ErrorCode::kUsage,
       "task_name: found '{}', expected one of{}; for other data give --train_file and "
       "--validation_file",
       name, known);
}

const std::string& TaskFiles::require_train() const {
  if (train.empty()) fail_missing(*this, "train.tsv");
  return train;
}

const std::vector<std::string>& TaskFiles::require_validation() const {
  return require(*this, validation, "dev");
}

const std::vector<std::string>& TaskFiles::require_test() const { return require(*this, test, "test"); }

bool has_task_files(const GlueTask& task, const std::string& env_dir) {
  std::vector<std::string> folders;
  add_candidates(env_dir, task.name, folders);
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return has_any(files_in(task, folder)); });
}

TaskFiles find_task_files(const GlueTask& task, const std::string& data_dir, const std::string& env_dir) {
  std::vector<std::string> folders;
  add_candidates(data_dir, task.name, folders);
  add_candidates(env_dir, task.name, folders);
  for (const std::string& folder : folders) {
    TaskFiles files = files_in(task, folder);
    if (!has_any(files)) continue;
    files.looked_in = {folder};
    return files;
  }
  fail(ErrorCode::kNotFound, "{}: no train.tsv, dev.tsv or test.tsv in GLUE's layout; looked in {}",
       task.name, list_folders(folders));
}

SquadFiles look_for_squad_files(bool version_2, const std::string& data_dir, const std::string& env_dir) {
  SquadFiles files;
  for (const std::string& root : {data_dir, env_dir}) {
    if (root.empty()) continue;
    files.looked_in.push_back(root);
    files.looked_in.push_back(join_path(root, "squad"));
  }
  const std::string version = version_2 ? "-v2.0" : "-v1.1";
  for (const std::string& folder : files.looked_in) {
    files.train = find_split(folder, "train" + version, ".json", true);
    files.validation = find_split(folder, "dev" + version, ".json", true);
    if (!files.train.empty() || !files.validation.empty()) break;
  }
  return files;
}

SquadFiles find_squad_files(bool version_2, const std::string& data_dir, const std::string& env_dir) {
  const SquadFiles files = look_for_squad_files(version_2, data_dir, env_dir);
  const std::string version = version_2 ? "-v2.0" : "-v1.1";
  if (files.train.empty() && files.validation.empty())
    fail(ErrorCode::kNotFound, "squad: no train{}.json or dev{}.json (or .json.gz); looked in {}", version,
         version, list_folders(files.looked_in));
  return files;
}

}  // namespace lathe
