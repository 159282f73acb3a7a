// What output folders tell of their runs.
#include <fmt/format.h>
#ifdef __linux__
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "lathe/app/commands/runs.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/text/python_format.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/log_format.h"
#include "lathe/train/python/saved_arguments.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStateFile = "trainer_state.json";
constexpr const char* kOfTheEnd = "train_loss";  // train_runtime may stand in every line of the log
constexpr int kDepth = 5;
constexpr const char* kLossName = "loss";
constexpr size_t kMeans = 40;  // of losses, which differ from batch to batch

/// Whether a folder is on one of Linux's file systems without a disk: they may have no end, and what is read
/// there may wait for ever.
bool is_of_the_kernel(const std::string& folder) {
#ifdef __linux__
  constexpr std::array<uint32_t, 12> kKinds = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,        CGROUP_SUPER_MAGIC,
                                               CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
                                               TRACEFS_MAGIC,       SECURITYFS_MAGIC,   BPF_FS_MAGIC,
                                               PSTOREFS_MAGIC,      EFIVARFS_MAGIC,     SELINUX_MAGIC};
  struct statfs info {};
  return statfs(folder.c_str(), &info) == 0 &&
         std::find(kKinds.begin(), kKinds.end(), static_cast<uint32_t>(info.f_type)) != kKinds.end();
#else
  static_cast<void>(folder);
  return false;
#endif
}

/// Before a file is opened.
void check_readable(FileSystem& fs, const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // a state with a million log lines has half of it
  if (!fs.exists(path)) return;
  if (fs.is_special(path) || fs.is_directory(path))
    fail(ErrorCode::kInvalidData, "{}: found a folder, a device or a pipe, expected a file; remove it", path);
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMostBytes)
    fail(ErrorCode::kInvalidData, "{}: found {} bytes, expected at most {}: no run leaves so large a file",
         path, bytes, kMostBytes);
}

std::optional<nlohmann::json> json_of(FileSystem& fs, const std::string& path) {
  check_readable(fs, path);
  if (!fs.exists(path)) return std::nullopt;
  return parse_python_json(fs.read(path, kLogFileBytes).value(), path);
}

std::optional<TrainerState> read_state(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kStateFile);
  const auto json = json_of(fs, path);
  if (!json) return std::nullopt;
  return trainer_state_from(*json, path);
}

/// Of the folder itself, which is written at the end, or of the newest checkpoint where that is further on or
/// the run in the folder has no end.
TrainerState newest_state(FileSystem& fs, const std::string& folder, bool ended) {
  const auto own = read_state(fs, folder);
  const std::string last = last_checkpoint(fs, folder);
  const auto there = last.empty() ? std::nullopt : read_state(fs, last);
  if (own && (ended || !there || own->global_step >= there->global_step)) return *own;
  return there.value_or(TrainerState());
}

std::string text_of(const nlohmann::json& settings, const char* key) {
  const auto found = settings.is_object() ? settings.find(key) : settings.end();
  return found != settings.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The last value of every number of the log history, by key, and of the results, which are later.
std::map<std::string, double> last_values(const PastRun& run) {
  std::map<std::string, double> values;
  for (const Json& entry : run.state.log_history)
    for (const auto& [key, value] : entry.items())
      if (value.is_number()) values[key] = value.get<double>();
  for (const auto& [key, value] : run.results.items())
    if (value.is_number()) values[key] = value.get<double>();
  return values;
}

/// "accuracy 0.91": the best where the run looked for it, else the last; a metric before the loss.
std::string metric_text(const PastRun& run) {
  const std::string wanted = text_of(run.settings, "metric_for_best_model");
  if (run.state.best_metric)
    return fmt::format("{} {:.4g}", wanted.empty() ? "best" : wanted, *run.state.best_metric);
  std::string loss;
  std::vector<Json> entries(run.state.log_history.rbegin(), run.state.log_history.rend());
  entries.emplace_back(run.results);  // of an evaluation after the log
  for (const Json& entry : entries)
    for (const auto& [key, value] : entry.items()) {
      if (!is_score_key(key) || !value.is_number()) continue;
      const std::string text = fmt::format("{} {:.4g}", key.substr(5), value.get<double>());
      if (key != "eval_loss") return text;
      if (loss.empty()) loss = text;
    }
  return loss;
}

}  // namespace

bool is_run(FileSystem& fs, const std::string& folder) {
  return fs.exists(join_path(folder, kRunFile)) || fs.exists(join_path(folder, kStateFile)) ||
         !last_checkpoint(fs, folder).empty();
}

PastRun read_run(FileSystem& fs, const std::string& folder) {
  if (!fs.is_directory(folder) || !is_run(fs, folder))
    fail(ErrorCode::kNotFound, "{}: no run; expected an --output_dir of lathe glue, lathe qa or run_glue.py",
         folder);
  PastRun run{.folder = folder};
  check_readable(fs, join_path(folder, kRunFile));
  if (fs.exists(join_path(folder, kRunFile))) {
    const RunFacts facts = read_run_file(fs, folder);
    run.status = facts.state == "running" ? "unfinished" : facts.state;
    run.settings = facts.settings;
    run.started = facts.started;
    run.state = newest_state(fs, folder, facts.state == "finished");
  } else {
    run.state = newest_state(fs, folder, false);
    const auto& history = run.state.log_history;
    const bool ended = std::any_of(history.begin(), history.end(),
                                   [](const Json& entry) { return entry.contains(kOfTheEnd); });
    run.status = ended ? "finished" : "unfinished";
    // A pickle that cannot be read only means that the arguments are not known.
    for (const std::string& from : {folder, last_checkpoint(fs, folder)}) try {
        for (const char* name : {"training_args.json", "training_args.bin"})
          check_readable(fs, join_path(from, name));
        if (const auto args = from.empty() ? std::nullopt : read_arguments(fs, from);
            args && run.settings.is_null())
          run.settings = *args;
      } catch (const Error&) {
      }
  }
  if (run.status == "finished")
    if (auto results = json_of(fs, join_path(folder, "all_results.json")); results && results->is_object())
      run.results = std::move(*results);
  run.model = file_name(text_of(run.settings, "model_name_or_path"));
  for (const char* key : {"task_name", "dataset_name", "train_file"})
    if (run.task.empty()) run.task = file_name(text_of(run.settings, key));
  if (const auto config = json_of(fs, join_path(folder, "config.json")); run.model.empty() && config)
    run.model = text_of(*config, "model_type");
  if (run.model == ".") run.model.clear();
  if (run.task == ".") run.task.clear();
  return run;
}

FoundRuns find_runs(FileSystem& fs, const std::string& folder, int most) {
  fs.can_look_for(folder).check();
  if (!fs.is_directory(folder)) fail(ErrorCode::kNotFound, "{}: there is no such folder", folder);
  if (is_of_the_kernel(folder))
    fail(ErrorCode::kNotFound,
         "{}: what lies there is shown by the kernel and holds no runs; name a folder on a disk", folder);
  FoundRuns found;
  int looked_into = 0;
  const auto look = [&](const auto& self, const std::string& at, int depth) -> void {
    if (looked_into++ == most) found.complete = false;
    if (!found.complete) return;
    if (!fs.can_look_for(join_path(at, kRunFile)).ok()) {
      found.closed.push_back(at);
      return;
    }
    if (is_run(fs, at)) {
      found.runs.push_back(at);
      return;
    }
    if (depth == 0) return;
    Result<std::vector<std::string>> names = fs.list(at);
    if (!names.ok()) found.closed.push_back(at);
    if (!names.ok()) return;
    for (const std::string& name : names.value()) {
      const std::string below = at == "." ? name : join_path(at, name);
      std::error_code ignored;
      if (!name.starts_with('.') && !std::filesystem::is_symlink(below, ignored) && fs.is_directory(below) &&
          !is_of_the_kernel(below))
        self(self, below, depth - 1);
    }
  };
  look(look, folder, kDepth);
  return found;
}

BenchReport runs_table(const std::vector<PastRun>& runs) {
  BenchReport report{fmt::format("{} run{}", runs.size(), runs.size() == 1 ? "" : "s"),
                     {},
                     {{"run", "run"},
                      {"model", "model"},
                      {"task", "task"},
                      {"state", "state"},
                      {"step", "step"},
                      {"steps", "of"},
                      {"metric", "metric"},
                      {"seconds", "seconds", 1},
                      {"started", "started"}},
                     {},
                     {}};
  for (const PastRun& run : runs) {
    const auto values = last_values(run);
    const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
    Json row;
    row["run"] = run.folder;
    row["model"] = text(run.model);
    row["task"] = text(run.task);
    row["state"] = run.status;
    row["step"] = run.state.global_step;
    row["steps"] = run.state.max_steps;
    row["metric"] = text(metric_text(run));
    row["seconds"] = values.contains(kOfTheEnd) && values.contains("train_runtime")
                         ? Json(values.at("train_runtime"))
                         : Json();
    row["started"] = text(run.started);
    report.rows.push_back(std::move(row));
  }
  return report;
}

std::vector<BenchReport> compare_runs(const std::vector<PastRun>& runs) {
  BenchReport arguments{"arguments that differ", {}, {{"argument", "argument"}}, {}, {}};
  BenchReport metrics{"last values", {}, {{"metric", "metric"}}, {}, {}};
  for (size_t i = 0; i < runs.size(); ++i)
    for (BenchReport* report : {&arguments, &metrics})
      report->columns.push_back({std::to_string(i), runs[i].folder});
  std::set<std::string> keys, metric_keys;
  std::vector<std::map<std::string, double>> values;
  for (const PastRun& run : runs) {
    if (run.settings.is_object())
      for (const auto& [key, value] : run.settings.items()) keys.insert(key);
    else
      arguments.notes.push_back(run.folder + ": its arguments are not known");
    values.push_back(last_values(run));
    for (const auto& [key, value] : values.back())
      if (key != "step" && key != "total_flos") metric_keys.insert(key);
  }
  for (const std::string& key : keys) {
    if (key == "output_dir" || key == "overwrite_output_dir") continue;
    Json row{{"argument", key}};
    std::set<std::string> different;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i].settings.is_object()) continue;
      const auto it = runs[i].settings.find(key);
      row[std::to_string(i)] = it == runs[i].settings.end() ? "-" : python_repr(Json(*it));
      different.insert(row[std::to_string(i)].get<std::string>());
    }
    if (different.size() > 1) arguments.rows.push_back(std::move(row));
  }
  if (arguments.rows.empty()) arguments.notes.push_back("none");
  for (const std::string& key : metric_keys) {
    Json row{{"metric", key}};
    for (size_t i = 0; i < runs.size(); ++i)
      row[std::to_string(i)] =
          values[i].contains(key) ? Json(fmt::format("{:.6g}", values[i].at(key))) : Json();
    metrics.rows.push_back(std::move(row));
  }
  return {arguments, metrics};
}

LineChart plot_runs(const std::vector<PastRun>& runs, const std::string& metric) {
  LineChart chart{metric, "step", {}};
  std::set<std::string> there;
  size_t points = 0;
  for (const PastRun& run : runs) {
    Curve curve{run.folder};
    const auto& losses = run.losses;
    if (!losses.empty()) there.insert(kLossName);
    for (const Json& entry : run.state.log_history)
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_number() || key == "step" || !entry.contains("step")) continue;
        there.insert(key);
        if (key == metric) curve.points.emplace_back(entry["step"].get<double>(), value.get<double>());
      }
    if (metric == kLossName && !losses.empty()) curve.points = means(losses, ceil_div(losses.size(), kMeans));
    points += curve.points.size();
    chart.curves.push_back(std::move(curve));
  }
  if (points == 0)
    fail(ErrorCode::kUsage, "--metric: found {}, these runs have: {}", metric,
         there.empty() ? "nothing yet" : fmt::format("{}", fmt::join(there, ", ")));
  return chart;
}

}  // namespace lathe
