#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/app/bench/bench_report.h"
#include "lathe/report/line_chart.h"
#include "lathe/report/run_facts.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// A past run, as its output folder tells it.
struct PastRun {
  std::string folder;
  std::string model, task;  ///< empty: not known
  std::string status;       ///< finished, interrupted, or unfinished: running still, or killed
  nlohmann::json settings;  ///< of run.json, else of the newest checkpoint; null: not known
  TrainerState state;       ///< of the newest trainer_state.json
  nlohmann::json results;   ///< all_results.json of a run that finished; null: there is none
  std::string started;      ///< empty: not known
};

/// Whether a folder is the output folder of a run: run.json, trainer_state.json or a checkpoint is in it.
bool is_run(FileSystem& fs, const std::string& folder);

/// Errors: kNotFound where there is no run; kInvalidData naming the file, also where it is a device or a
/// pipe, or larger than any that a run leaves.
PastRun read_run(FileSystem& fs, const std::string& folder);

/// What `find_runs` found, and where it did not look.
struct FoundRuns {
  std::vector<std::string> runs;    ///< output folders, by name
  std::vector<std::string> closed;  ///< folders in which nobody may look
  bool complete = true;             ///< false: it ended after `most` folders
};

inline constexpr int kMostFolders = 50'000;  ///< seconds on a local disk

/// Output folders at and below `folder`; not within another run, nor deeper than five folders, nor through
/// links below it, nor in what the kernel shows as files (/proc, /sys and the like).  Errors: kNotFound.
FoundRuns find_runs(FileSystem& fs, const std::string& folder, int most = kMostFolders);

/// A row per run: run, model, task, state, step, steps, metric, seconds, started.
BenchReport runs_table(const std::vector<PastRun>& runs);
/// What differs: one report of arguments, one of the last value of every metric; a column per run.
std::vector<BenchReport> compare_runs(const std::vector<PastRun>& runs);
/// One curve per run.  Errors: kUsage naming the metrics that there are, where no run has this one.
LineChart plot_runs(const std::vector<PastRun>& runs, const std::string& metric);

}  // namespace lathe
