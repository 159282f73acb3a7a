#include "lathe/app/bench/bench_profile.h"

#include <fmt/format.h>

#include <map>

#include "lathe/program/op.h"

namespace lathe {
namespace {

double milliseconds(const Span& span) { return static_cast<double>(span.end_ns - span.begin_ns) * 1e-6; }

}  // namespace

NodeTimes node_times(Executable& executable, const Program& program, int runs,
                     const std::function<void()>& run) {
  executable.profile(true);
  std::map<int, std::vector<double>> samples;
  const auto profiled_run = [&] {
    run();
    for (const Span& span : executable.timeline()) samples[span.node].push_back(milliseconds(span));
  };
  NodeTimes times{std::vector<double>(program.nodes().size(), 0),
                  static_cast<int>(milliseconds_of_calls(runs, profiled_run).size())};
  executable.profile(false);
  for (auto& [node, all] : samples) times.ms[static_cast<size_t>(node)] = times_of(std::move(all)).median_ms;
  return times;
}

OpProfile::OpProfile(const std::string& model, const BenchDevice& device)
    : report_{fmt::format("profile: {}, milliseconds of each op", model),
              {},
              {{"dtype", "dtype"},
               {"batch", "batch"},
               {"op", "op"},
               {"count", "nodes"},
               {"ms", "ms", 2},
               {"percent", "% of all", 1},
               {"bytes_per_s", "GB/s", 1, 1e-9},
               {"percent_of_copy", "% of a copy", 0}},
              {},
              {"ms", {"dtype", "batch", "op"}, {"ms", "ms", 2}}},
      device_(device) {}

void OpProfile::add(const nlohmann::ordered_json& row, const Program& program, const NodeTimes& times) {
  struct Sum {
    double ms = 0, bytes = 0;
    int count = 0;
  };
  std::map<std::string, Sum> ops;
  double total = 0;
  for (size_t n = 0; n < times.ms.size(); ++n) {
    const Node& node = program.nodes()[n];
    Sum& op = ops[node.op->name];
    op.ms += times.ms[n], total += times.ms[n], ++op.count;
    if (node.op->cost) op.bytes += node.op->cost(node, program).bytes;
  }
  for (const auto& [name, op] : ops) {
    if (op.ms == 0) continue;  // views
    nlohmann::ordered_json line = row;
    line["bench"] = "profile";
    line["op"] = name;
    line["count"] = op.count;
    line["ms"] = six_digits(op.ms);
    line["percent"] = six_digits(100 * op.ms / total);
    line["bytes_per_s"] = six_digits(op.bytes / op.ms * 1e3);
    line["calls"] = times.calls;
    report_.rows.push_back(std::move(line));
  }
}

BenchReport OpProfile::report() const {
  BenchReport report = report_;
  const std::optional<double> copy = measure_copy(device_.kind, {device_.threads});
  if (copy)
    report.notes.push_back(
        fmt::format("a copy too large for the caches: {:.1f} GB/s; what one op has just written and the "
                    "next one reads may come faster, and rows of embeddings without a token are counted "
                    "that a CPU leaves alone",
                    *copy * 1e-9));
  for (nlohmann::ordered_json& row : report.rows) {
    const double percent = copy ? 100 * row["bytes_per_s"].get<double>() / *copy : 0;
    row["percent_of_copy"] = copy ? nlohmann::ordered_json(six_digits(percent)) : nullptr;
  }
  return report;
}

}  // namespace lathe
