// lathe bench plan: what a training step asks of a device, counted and not run, and how long it might take on
// chips that are not at hand.
#include <fmt/format.h>

#include <map>
#include <numeric>

#include "lathe/app/bench/bench_work.h"
#include "lathe/engine/session.h"
#include "lathe/program/op.h"

namespace lathe {
namespace {

/// What Apple publishes of a chip's GPU: cores, and its memory's bandwidth in GB/s.
/// Source: apple.com, technical specifications of the Macs that hold it, of the variant with most cores.
struct Chip {
  const char* name;
  int cores;
  double bandwidth;
};
constexpr Chip kChips[] = {{"M1", 8, 68},   {"M1 Pro", 16, 200}, {"M1 Max", 32, 400}, {"M1 Ultra", 64, 800},
                           {"M2", 10, 100}, {"M2 Pro", 19, 200}, {"M2 Max", 38, 400}, {"M2 Ultra", 76, 800},
                           {"M3", 10, 100}, {"M3 Pro", 18, 150}, {"M3 Max", 40, 400}, {"M3 Ultra", 80, 819},
                           {"M4", 10, 120}, {"M4 Pro", 20, 273}, {"M4 Max", 40, 546}, {"M5", 10, 153}};

/// The assumptions of a prediction.
struct Assumed {
  /// Of one core: what Apple said of M1 (2.6 TFLOP/s by 8 cores) and M2 (3.6 by 10), and of none since.
  double core_flops = 0.34e12;
  double product_share = 0.7, bandwidth_share = 0.8;  ///< of these that a good kernel reaches
  double launch_us = 3;                               ///< least time of a small kernel in a sequence
};

struct Count {
  int64_t nodes = 0;
  double flops = 0, bytes = 0;
};

/// A view of memory: nothing is launched for it.
bool computes(const Node& node) { return node.op->aliasing == Aliasing::kNone; }

Count& operator+=(Count& count, const Cost& cost) {
  ++count.nodes, count.flops += cost.flops, count.bytes += cost.bytes;
  return count;
}

BenchReport ops_report(const std::string& title, const std::string& device,
                       const nlohmann::ordered_json& first, const Program& program) {
  BenchReport report{title,
                     {device, "bytes: every operand and result of an op, once"},
                     {{"op", "op"}, {"count", "ops"}, {"flops", "GFLOP", 2, 1e-9}, {"bytes", "MB", 1, 1e-6}},
                     {},
                     {}};
  std::map<std::string, Count> ops;
  Count all;
  for (const Node& node : program.nodes()) {
    if (!computes(node)) continue;
    const Cost cost = node.op->cost(node, program);
    ops[node.op->name] += cost;
    all += cost;
  }
  const auto add = [&](const std::string& name, const Count& count) {
    nlohmann::ordered_json row = first;
    row["op"] = name;
    row["count"] = count.nodes;
    row["flops"] = six_digits(count.flops);
    row["bytes"] = six_digits(count.bytes);
    report.rows.push_back(std::move(row));
  };
  for (const auto& [name, count] : ops) add(name, count);
  add("all", all);
  return report;
}

BenchReport launches_report(const nlohmann::ordered_json& first, const Launches& launches) {
  BenchReport report{"launches of one step", {}, {{"launch", "kind"}, {"count", "count"}}, {}, {}};
  const auto add = [&](const std::string& name, int64_t count) {
    nlohmann::ordered_json row = first;
    row["launch"] = name;
    row["count"] = count;
    report.rows.push_back(std::move(row));
  };
  for (const auto& [name, count] : launches) add(name, count);
  add("all", std::accumulate(launches.begin(), launches.end(), int64_t{0},
                             [](int64_t sum, const auto& kind) { return sum + kind.second; }));
  return report;
}

/// The roofline of every op, one after another; each of the `launches` beyond one per op adds its time.
BenchReport prediction_report(const nlohmann::ordered_json& first, const Program& program, int64_t launches) {
  const Assumed assumed;
  BenchReport report{
      "predicted for Apple's chips: arithmetic, not a measurement",
      {fmt::format("each op takes the longer of its products at {:.0f} % of {:.2f} TFLOP/s a core, fp32 and "
                   "bf16 alike (Apple: M1 and M2), and its bytes at {:.0f} % of the memory's bandwidth",
                   100 * assumed.product_share, assumed.core_flops * 1e-12, 100 * assumed.bandwidth_share),
       fmt::format("each launch takes {} us at least; the matrix units of M5 are left out",
                   assumed.launch_us)},
      {{"chip", "chip"},
       {"cores", "GPU cores"},
       {"bandwidth", "GB/s"},
       {"ms", "ms a step", 0},
       {"compute_ms", "of it products", 0},
       {"memory_ms", "memory", 0},
       {"launch_ms", "launches", 0}},
      {},
      {"predicted ms a step", {"chip"}, {"ms", "ms", 0}}};
  for (const Chip& chip : kChips) {
    double compute = 0, memory = 0, waits = 0;
    int64_t ops = 0;
    for (const Node& node : program.nodes()) {
      if (!computes(node)) continue;
      const Cost cost = node.op->cost(node, program);
      const double by_flops = cost.flops / (chip.cores * assumed.core_flops * assumed.product_share);
      const double by_bytes = cost.bytes / (chip.bandwidth * 1e9 * assumed.bandwidth_share);
      const double least = assumed.launch_us * 1e-6;
      ++ops;
      (std::max(by_flops, by_bytes) < least ? waits
       : by_flops > by_bytes                ? compute
                                            : memory) += std::max({by_flops, by_bytes, least});
    }
    waits += static_cast<double>(std::max<int64_t>(launches - ops, 0)) * assumed.launch_us * 1e-6;
    nlohmann::ordered_json row = first;
    row["chip"] = chip.name;
    row["cores"] = chip.cores;
    row["bandwidth"] = chip.bandwidth;
    row["ms"] = six_digits((compute + memory + waits) * 1e3);
    row["compute_ms"] = six_digits(compute * 1e3);
    row["memory_ms"] = six_digits(memory * 1e3);
    row["launch_ms"] = six_digits(waits * 1e3);
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace

std::vector<BenchReport> bench_plan(const BenchSettings& s) {
  const std::string dtype = s.dtypes().at(0);
  const int rows = s.batches().at(0);
  const std::unique_ptr<Backend> backend = open_device(s.device, {s.threads});
  const AutoModel model = bench_model(s.model, {"a", "b"});
  check_seq(s, model);
  Session::Options options;
  options.program.dtype = bench_dtype(dtype);
  options.program.recompute_every = s.recompute ? 1 : 0;
  Session session(*backend, *model.model, options);
  session.programs().expect_rows(ProgramCache::Rows::kTrained, s.seq);
  // As for a run: what does not fit is found out before the host holds a batch of that size.
  session.programs().reserve(
      {{{ProgramKind::kStep, bench_bucket(int64_t{rows} * s.seq, rows, session.token_rounding())}}});
  const std::vector<int> lengths(static_cast<size_t>(rows), s.seq);
  const Session::StepPlan plan =
      session.plan_step(bench_batch(lengths, model.config.vocab_size, true, session.token_rounding()), {});

  const BenchDevice device = unmeasured_device(backend->info().kind, s.threads);
  nlohmann::ordered_json first = bench_row("plan", device, s.model, dtype);
  first["batch"] = rows;
  first["seq"] = s.seq;
  std::vector<BenchReport> reports{
      ops_report(fmt::format("plan: the ops of one training step of {}, {} x {} tokens, {}", s.model, rows,
                             s.seq, dtype),
                 device.name, first, *plan.compiled->program)};
  if (!plan.launches.empty()) reports.push_back(launches_report(first, plan.launches));
  const int64_t launches = reports.back().rows.back()["count"].get<int64_t>();
  reports.push_back(prediction_report(first, *plan.compiled->program, launches));
  return reports;
}

}  // namespace lathe
