#include "lathe/report/tracked_run.h"

#include <algorithm>
#include <utility>

#include "lathe/report/loss_file.h"

namespace lathe {

void TrackedRun::begin(const Trainer& trainer, Backend& backend, int processes, LogSink say) {
  say_ = std::move(say);
  folder_ = trainer.arguments().output_dir.value_or(".");
  facts_.state = RunFacts{}.state;
  facts_.started = time_text();
  facts_.ended.clear();
  environment_ = [&trainer, &backend, processes] {
    return run_environment(trainer.arguments(), backend, processes);
  };
  facts_.environment = environment_();
  if (training_) tell(write_run_file(fs_, folder_, facts_));
  trackers_.clear();  // before others open files of theirs
  trackers_ = make_trackers(fs_, facts_, trainer, backend, training_, say_);
}

void TrackedRun::learns_from(std::vector<std::string> text_columns, bool pairs) {
  facts_.text_columns = std::move(text_columns);
  facts_.text_pairs = pairs;
}

void TrackedRun::begin_training(const Trainer& trainer, Backend& backend, int processes, LogSink say) {
  training_ = true;
  begin(trainer, backend, processes, std::move(say));
}

void TrackedRun::begin_evaluation(const Trainer& trainer, Backend& backend, int processes, LogSink say) {
  if (facts_.started.empty()) begin(trainer, backend, processes, std::move(say));
}

void TrackedRun::record(const nlohmann::ordered_json& entry) {
  for (const auto& tracker : trackers_) tracker->record(entry);
}

void TrackedRun::step() {
  for (const auto& tracker : trackers_) tracker->step();
}

void TrackedRun::show(const Findings& findings) {
  for (const auto& tracker : trackers_) tracker->show(findings);
}

void TrackedRun::finish(const std::string& state) {
  if (facts_.started.empty() || facts_.state != RunFacts{}.state) return;
  facts_.state = state;
  facts_.ended = time_text();
  facts_.environment = environment_();  // a checkpoint may have chosen what computes
  for (const auto& tracker : trackers_) tracker->finish(facts_);
  if (!training_) return;
  Result<std::vector<std::string>> files = fs_.list(folder_);
  const std::vector<std::string> own = {kLossFile, kRunFile};
  if (state == "interrupted" && files.ok() && std::ranges::includes(own, files.value())) {
    // Nothing of this run is left to be told of, and the folder is as empty as it was.
    for (const std::string& name : own) tell(fs_.remove_all(join_path(folder_, name)));
  } else {
    tell(write_run_file(fs_, folder_, facts_));
  }
}

void TrackedRun::tell(const Status& status) {
  // The run itself is whole, whatever happens to this file: an error of its own would hide that of the run.
  if (!status.ok() && say_) say_(LogLevel::kWarning, status.message());
}

}  // namespace lathe
