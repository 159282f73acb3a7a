#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/report/pace.h"
#include "lathe/report/run_page.h"
#include "lathe/report/tracker.h"

namespace lathe {

/// --report_to html: OUTPUT_DIR/report.html, rewritten, whole or not at all, at every evaluation, at the end,
/// and otherwise at most every ten seconds.  Before the end only if the pages take at most a twentieth of the
/// time.
class HtmlReport : public Tracker {
 public:
  /// What changes while a run is going on.
  struct Source {
    std::function<const TrainerState&()> state;
    std::function<const LossCurve&()> losses;
    std::function<int64_t()> trained_tokens;     ///< as Trainer's
    std::function<double()> evaluation_seconds;  ///< likewise
    std::function<std::optional<double>()> resident_bytes, device_bytes;
    std::function<double()> now;  ///< seconds
  };
  HtmlReport(FileSystem& fs, std::string path, std::string name, RunFacts facts, Source source, LogSink say);

  void record(const nlohmann::ordered_json& entry) override;
  void step() override { write_if_due(Pace::kLeastPause); }
  void show(const Findings& findings) override;
  void finish(const RunFacts& facts) override;

 private:
  void measure(const nlohmann::ordered_json& entry);
  void write_if_due(double least_pause);
  void write();

  FileSystem& fs_;
  std::string path_, name_;
  RunFacts facts_;
  Source source_;
  LogSink say_;
  Findings findings_;
  std::vector<RunSample> samples_;
  double measured_at_, measured_evaluation_;  ///< clock and seconds of evaluations at the last log line
  int64_t measured_tokens_;
  Pace pace_;
  bool failed_ = false;
};

}  // namespace lathe
