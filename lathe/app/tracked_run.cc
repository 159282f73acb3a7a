#include "lathe/app/tracked_run.h"

#include <utility>

namespace lathe {

void TrackedRun::begin(const Trainer& trainer, Backend& backend, int processes, LogSink say,
                       const std::string& page) {
  say_ = std::move(say);
  folder_ = trainer.arguments().output_dir.value_or(".");
  facts_.state = RunFacts{}.state;
  facts_.started = time_text();
  facts_.ended.clear();
  facts_.environment = run_environment(trainer.arguments(), backend, processes);
  if (training_) write_run_file(fs_, folder_, facts_).check();
  trackers_ = make_trackers(fs_, facts_, trainer, backend, page, say_);
}

void TrackedRun::begin_training(const Trainer& trainer, Backend& backend, int processes, LogSink say) {
  training_ = true;
  begin(trainer, backend, processes, std::move(say), "report.html");
}

void TrackedRun::begin_evaluation(const Trainer& trainer, Backend& backend, int processes, LogSink say) {
  if (facts_.started.empty()) begin(trainer, backend, processes, std::move(say), "eval_report.html");
}

void TrackedRun::record(const nlohmann::ordered_json& entry) {
  for (const auto& tracker : trackers_) tracker->record(entry);
}

void TrackedRun::show(const Findings& findings) {
  for (const auto& tracker : trackers_) tracker->show(findings);
}

void TrackedRun::finish(const std::string& state) {
  if (facts_.started.empty()) return;
  facts_.state = state;
  facts_.ended = time_text();
  for (const auto& tracker : trackers_) tracker->finish(facts_);
  if (!training_) return;
  Status status;
  if (state == "interrupted" && fs_.list(folder_).value() == std::vector<std::string>{kRunFile}) {
    // Nothing of this run is left to be told of, and the folder is as empty as it was.
    status = fs_.remove_all(join_path(folder_, kRunFile));
  } else {
    status = write_run_file(fs_, folder_, facts_);
  }
  // The run itself is whole, whatever happens to this file: an error of its own would hide that of the run.
  if (!status.ok() && say_) say_(LogLevel::kWarning, status.message());
}

}  // namespace lathe
