#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/report/findings.h"
#include "lathe/report/run_facts.h"
#include "lathe/train/loss_curve.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// How fast and how large a run was up to an update.
struct RunSample {
  int64_t step = 0;
  std::optional<double> tokens_per_second;  ///< of all processes; no padding, no evaluations
  std::optional<double> resident_bytes, device_bytes;
};

/// A run as one page of HTML: state, curves of loss, log history, speed and memory, results, evaluations,
/// what the last one found, environment, command, arguments.  Its size does not grow with the length of the
/// run beyond 500 points per curve and 100 rows per table.
std::string run_page(const std::string& name, const RunFacts& facts, const TrainerState& state,
                     const LossCurve& losses, const std::vector<RunSample>& samples,
                     const Findings& findings);

}  // namespace lathe
