#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/report/findings.h"
#include "lathe/report/run_facts.h"
#include "lathe/report/tracker.h"

namespace lathe {

/// What a run leaves to be looked at: run.json, losses.csv, and the trackers of --report_to.  Before `begin`
/// nothing happens.
class TrackedRun {
 public:
  /// facts: command and settings.
  TrackedRun(FileSystem& fs, RunFacts facts) : fs_(fs), facts_(std::move(facts)) {}

  /// Where the training data have their texts, for run.json; before it begins.
  void learns_from(std::vector<std::string> text_columns, bool pairs);
  /// A training begins: writes run.json, or says why it cannot.  `trainer` and `backend` must outlive this.
  void begin_training(const Trainer& trainer, Backend& backend, int processes, LogSink say);
  /// An evaluation without training begins, if nothing has: its page is eval_report.html, and run.json and
  /// report.html stay those of the training that the folder may hold.
  void begin_evaluation(const Trainer& trainer, Backend& backend, int processes, LogSink say);
  void record(const nlohmann::ordered_json& entry);
  /// After every update.
  void step();
  void show(const Findings& findings);
  /// The file of the HTML report: where no evaluation without training began, that of the training.
  std::string page() const { return page_of(training_ || facts_.started.empty()); }
  /// state: as RunFacts has it; the first one stays, whatever is evaluated later.  An interrupted training
  /// that leaves nothing but run.json and losses.csv leaves nothing.
  void finish(const std::string& state);

 private:
  void begin(const Trainer& trainer, Backend& backend, int processes, LogSink say);
  void tell(const Status& status);

  FileSystem& fs_;
  RunFacts facts_;
  LogSink say_;
  std::string folder_;
  bool training_ = false;
  std::function<std::vector<std::pair<std::string, std::string>>()> environment_;
  std::vector<std::unique_ptr<Tracker>> trackers_;
};

}  // namespace lathe
