// lathe runs: lists, compares and plots past runs.
#include "lathe/app/commands/runs.h"

#include <fmt/format.h>

#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"
#include "lathe/report/loss_file.h"

namespace lathe {
namespace {

struct RunsSettings {
  bool json = false;
  std::optional<std::string> metric;
};

constexpr int kHeight = 16;  // lines of a plot

std::vector<PastRun> read_all(const std::vector<std::string>& folders, bool with_losses) {
  std::vector<PastRun> runs;
  for (const std::string& folder : folders) {
    runs.push_back(read_run(real_file_system(), folder));
    if (with_losses) runs.back().losses = read_losses(real_file_system(), folder);
  }
  return runs;
}

void show(const RunsSettings& settings, const TerminalPort& port, const BenchReport& report) {
  port.out(settings.json ? json_lines(report) : terminal_text(report, port.width(), port.unicode));
}

int list(const RunsSettings& settings, std::vector<std::string> folders, const TerminalPort& port) {
  std::vector<std::string> found, closed;
  if (folders.empty()) folders = {"."};
  for (const std::string& folder : folders) {
    FoundRuns here = find_runs(real_file_system(), folder);
    found.insert(found.end(), here.runs.begin(), here.runs.end());
    closed.insert(closed.end(), here.closed.begin(), here.closed.end());
    if (!here.complete)
      print_error(
          fmt::format("[WARNING] {}: looked into {} folders, and there are more; name a folder nearer to the "
                      "runs\n",
                      folder, kMostFolders));
  }
  if (!closed.empty())
    print_error(fmt::format("[WARNING] what runs lie here is not known, for want of permission: {}\n",
                            fmt::join(closed, ", ")));
  std::vector<PastRun> runs;
  for (const std::string& folder : found) {
    try {
      runs.push_back(read_run(real_file_system(), folder));
    } catch (const Error& error) {  // one damaged file does not hide the other runs
      print_error(fmt::format("[WARNING] {}\n", error.what()));
    }
  }
  show(settings, port, runs_table(runs));
  return 0;
}

int runs(RunsSettings& settings, const Call& call) {
  const TerminalPort port = standard_port();
  const std::string what = call.words.empty() ? "" : call.words[0];
  const bool plot = what == "plot", compare = what == "compare";
  if (settings.metric && !plot) call.refuse("--metric means nothing but to lathe runs plot");
  if (!plot && !compare) return list(settings, call.words, port);
  const std::vector<std::string> folders(call.words.begin() + 1, call.words.end());
  const size_t least = plot ? 1 : 2;
  if (folders.size() < least)
    call.refuse(
        fmt::format("found {} output folders to {}, expected at least {}", folders.size(), what, least));
  const std::vector<PastRun> runs = read_all(folders, plot);
  if (plot) {
    if (settings.json) call.refuse("--json means nothing to lathe runs plot");
    port.out(terminal_chart(plot_runs(runs, settings.metric.value_or("loss")), port.width(), kHeight,
                            port.unicode));
    return 0;
  }
  for (const BenchReport& report : compare_runs(runs)) show(settings, port, report);
  return 0;
}

}  // namespace

Command runs_command() {
  using R = RunsSettings;
  return make_command<R>(
      {.name = "runs",
       .summary = "list, compare and plot past runs",
       .synopsis = "[FOLDER…] [--json]\ncompare RUN RUN… [--json]\nplot RUN… [--metric eval_loss]",
       .details =
           "Lists the runs whose output folders lie at or below FOLDER (here, if not given); shows in which "
           "arguments and metrics runs differ; plots a metric of the log history.",
       .words = Words::kAny,
       .choices = {"compare", "plot"},
       .or_files = true},
      {{"json", &R::json, "JSON lines instead of tables."},
       {"metric", &R::metric, "What to plot; loss, if not given.", {.value = "NAME"}}},
      runs);
}

}  // namespace lathe
