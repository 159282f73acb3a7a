#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/report/pace.h"
#include "lathe/report/tracker.h"

namespace lathe {

/// The file of an output folder with the loss of every update, whatever --logging_steps says: "step,loss" and
/// a line for each point of LossCurve.
inline constexpr const char* kLossFile = "losses.csv";

/// Writes kLossFile while a training goes on, whole or not at all, at most every ten seconds, and at its end.
class LossFile : public Tracker {
 public:
  /// losses: of the run so far.  now: seconds.
  LossFile(FileSystem& fs, const std::string& folder, std::function<const LossCurve&()> losses,
           std::function<double()> now, LogSink say);

  void record(const nlohmann::ordered_json&) override {}
  void step() override;
  void finish(const RunFacts&) override { write(); }

 private:
  void write();

  FileSystem& fs_;
  std::string path_;
  std::function<const LossCurve&()> losses_;
  std::function<double()> now_;
  LogSink say_;
  Pace pace_;
  bool failed_ = false;
};

/// (step, loss) by rising step; empty if the folder has no such file.
/// Errors: kIo; kInvalidData naming the line.
std::vector<std::pair<double, double>> read_losses(FileSystem& fs, const std::string& folder);

}  // namespace lathe
