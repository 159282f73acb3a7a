#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/app/bench/bench_work.h"

namespace lathe {

/// Milliseconds of every node of a program, each the median over `calls` profiled runs.
struct NodeTimes {
  std::vector<double> ms;
  int calls = 0;
};

/// Profiles `runs` calls of `run`, which runs the executable once; fewer if they take longer than kPatience.
NodeTimes node_times(Executable& executable, const Program& program, int runs,
                     const std::function<void()>& run);

/// Milliseconds of each op of programs on one device, compared with what a copy reaches there.
class OpProfile {
 public:
  /// `model`: its name, for the title.
  OpProfile(const std::string& model, const BenchDevice& device);
  /// A row for each op of the program: `row` (with "dtype" and "batch") and what its nodes took together.
  void add(const nlohmann::ordered_json& row, const Program& program, const NodeTimes& times);
  /// The report of all programs.  It measures a copy, whose buffers then count in the peak of the process's
  /// memory.
  BenchReport report() const;

 private:
  BenchReport report_;
  BenchDevice device_;
};

}  // namespace lathe
