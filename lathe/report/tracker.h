#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lathe/report/findings.h"
#include "lathe/report/run_facts.h"
#include "lathe/train/trainer.h"

namespace lathe {

/// Something that follows a run and shows it.  An error is reported once, and the run continues without it.
class Tracker {
 public:
  virtual ~Tracker() = default;
  /// A line of the log history, with its step.
  virtual void record(const nlohmann::ordered_json& entry) = 0;
  /// After every update.
  virtual void step() {}
  /// What the last evaluation showed.
  virtual void show(const Findings&) {}
  /// Nothing follows: the run has ended or was interrupted.
  virtual void finish(const RunFacts&) {}
};

/// Whether --report_to asks for a tracker.
bool reports_to(const TrainingArguments& args, const std::string& name);

/// The file of the HTML report in the output folder of a training, or of an evaluation without one.
std::string page_of(bool training);

/// Those that --report_to asks for and, in a training, LossFile.  `trainer` and `backend` must outlive them.
std::vector<std::unique_ptr<Tracker>> make_trackers(FileSystem& fs, const RunFacts& facts,
                                                    const Trainer& trainer, Backend& backend, bool training,
                                                    LogSink say);

}  // namespace lathe
