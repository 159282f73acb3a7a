// lathe runs: lists, compares and plots past runs.
#include "lathe/app/commands/runs.h"

#include <fmt/format.h>

#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr const char* kRunsUsage =
    "usage: lathe runs [FOLDER…] [--json]\n"
    "       lathe runs compare RUN RUN… [--json]\n"
    "       lathe runs plot RUN… [--metric eval_loss]\n"
    "  Lists the runs whose output folders lie at or below FOLDER (here, if not given); shows in which "
    "arguments\n"
    "  and metrics runs differ; plots a metric of the log history (loss, if not given).\n";

constexpr int kHeight = 16;  // lines of a plot

std::vector<PastRun> read_all(const std::vector<std::string>& folders) {
  std::vector<PastRun> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(real_file_system(), folder));
  return runs;
}

void show(const Options& options, const TerminalPort& port, const BenchReport& report) {
  port.out(options.has("--json") ? json_lines(report) : terminal_text(report, port.width(), port.unicode));
}

int list(const Options& options, const TerminalPort& port) {
  std::vector<std::string> folders = options.rest, found, closed;
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
  show(options, port, runs_table(runs));
  return 0;
}

}  // namespace

Syntax runs_syntax() {
  return {.usage = kRunsUsage,
          .flags = {{"--json", "", "JSON lines instead of tables"}, {"--metric", "NAME", "what to plot"}},
          .words = {"compare", "plot"},
          .or_files = true};
}

int run_runs(const std::vector<std::string>& args) {
  const Options options = parse_options(args, runs_syntax());
  const TerminalPort port = standard_port();
  if (options.has("--help")) {
    port.out(kRunsUsage);
    return 0;
  }
  const std::string what = options.rest.empty() ? "" : options.rest[0];
  const bool plot = what == "plot", compare = what == "compare";
  if (options.has("--metric") && !plot)
    fail(ErrorCode::kUsage, "--metric means nothing to lathe runs but plot\n{}", kRunsUsage);
  if (!plot && !compare) return list(options, port);
  const std::vector<std::string> folders(options.rest.begin() + 1, options.rest.end());
  const size_t least = plot ? 1 : 2;
  if (folders.size() < least)
    fail(ErrorCode::kUsage, "lathe runs {}: found {} output folders, wants at least {}\n{}", what,
         folders.size(), least, kRunsUsage);
  const std::vector<PastRun> runs = read_all(folders);
  if (plot) {
    if (options.has("--json"))
      fail(ErrorCode::kUsage, "--json means nothing to lathe runs plot\n{}", kRunsUsage);
    port.out(terminal_chart(plot_runs(runs, options.get("--metric", "loss")), port.width(), kHeight,
                            port.unicode));
    return 0;
  }
  for (const BenchReport& report : compare_runs(runs)) show(options, port, report);
  return 0;
}

}  // namespace lathe
