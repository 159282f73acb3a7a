#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/app/bench/bench_report.h"
#include "lathe/report/line_chart.h"
#include "lathe/report/run_facts.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// A past run, as its output folder describes it.
struct PastRun {
  std::string folder;
  std::string model, task;  ///< empty: not known
  std::string status;       ///< finished, interrupted, or unfinished: still running, or killed
  nlohmann::json settings;  ///< from run.json, else from the newest checkpoint; null: not known
  TrainerState state;       ///< from the newest trainer_state.json
  std::vector<std::pair<double, double>> losses = {};  ///< of LossFile, if read_losses was asked
  nlohmann::json results;  ///< all_results.json of a run that finished; null: there is none
  std::string started;     ///< empty: not known
};

/// Whether a folder is the output folder of a run: it holds run.json, trainer_state.json or a checkpoint.
bool is_run(FileSystem& fs, const std::string& folder);

/// Errors: kNotFound if there is no run; kInvalidData naming the file, also if it is a device or a pipe, or
/// larger than any file that a run leaves.
PastRun read_run(FileSystem& fs, const std::string& folder);

/// What `find_runs` found, and where it did not look.
struct FoundRuns {
  std::vector<std::string> runs;    ///< output folders, by name
  std::vector<std::string> closed;  ///< folders that may not be read
  bool complete = true;             ///< false: the search ended after `most` folders
};

inline constexpr int kMostFolders = 50'000;  ///< a few seconds on a local disk

/// Output folders at and below `folder`.  It does not search within another run, deeper than five folders,
/// through links below `folder`, or in what the kernel shows as files (/proc, /sys and the like).  Errors:
/// kNotFound.
FoundRuns find_runs(FileSystem& fs, const std::string& folder, int most = kMostFolders);

/// A row per run: run, model, task, state, step, steps, metric, seconds, started.
BenchReport runs_table(const std::vector<PastRun>& runs);
/// The differences: one report of arguments, one of the last value of every metric; a column per run.
std::vector<BenchReport> compare_runs(const std::vector<PastRun>& runs);
/// One curve per run; of "loss" that of `losses`, if there are any, as means.  Errors: kUsage if no run has
/// this metric, naming the metrics that exist.
LineChart plot_runs(const std::vector<PastRun>& runs, const std::string& metric);

}  // namespace lathe
