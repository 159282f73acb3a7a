// lathe bench step and gemm: a whole training step, and the matrix products within it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "lathe/app/bench/bench_profile.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/engine/session.h"

namespace lathe {
namespace {

constexpr int kWarmup = 2;

/// A model on a device and the batch that it trains on, over and over.
class Training {
 public:
  Training(const BenchSettings& settings, const BenchDevice& device, const std::string& dtype, int rows)
      : model_(bench_model(settings.model, {"a", "b"})),
        backend_(open_device(device.kind, {device.threads})) {
    check_seq(settings, model_);
    Session::Options options;
    options.program.dtype = bench_dtype(dtype, {"fp8"});
    options.program.quantization = bench_quantization(dtype, *backend_);
    options.program.recompute_every = settings.recompute ? 1 : 0;
    session_ = std::make_unique<Session>(*backend_, *model_.model, options);
    write_weights(*session_, model_);
    session_->programs().expect_rows(ProgramCache::Rows::kTrained, settings.seq);
    // What does not fit is found out before the host holds a batch of that size.
    session_->programs().reserve({{{ProgramKind::kStep, bench_bucket(int64_t{rows} * settings.seq, rows,
                                                                     session_->token_rounding())}}});
    lengths_.assign(static_cast<size_t>(rows), settings.seq);
    batch_ = bench_batch(lengths_, model_.config.vocab_size, true, session_->token_rounding());
    scalars_.learning_rate = 2e-5;
    scalars_.update_step = scalars_.adam_step = 0;
  }

  /// As the trainer does it: the loss of a step is read when the next one has been started.
  void step() {
    scalars_.adam_step = ++scalars_.update_step;
    const Session::Pending before = std::exchange(last_, session_->step(batch_, scalars_));
    if (before.compiled == nullptr) return;
    const Session::Outcome outcome = session_->collect(before);
    if (!std::isfinite(outcome.loss)) fail(ErrorCode::kNonFinite, "bench: the loss is {}", outcome.loss);
  }
  /// Waits for the last step.
  void finish() { session_->collect(last_); }
  const Program& program() const { return *last_.compiled->program; }
  NodeTimes node_times(int steps) {
    return lathe::node_times(*last_.compiled->executable, program(), steps, [this] { step(); });
  }
  size_t arena_bytes() const { return session_->programs().arena_bytes(); }
  double flops() const { return 3 * forward_flops(model_.config, lengths_); }

 private:
  AutoModel model_;
  std::vector<int> lengths_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Session> session_;
  PackedBatch batch_;
  StepScalars scalars_;
  Session::Pending last_;
};

/// What a group of like nodes took together.
struct Group {
  double ms = 0, flops = 0;
  int count = 0;
};

nlohmann::ordered_json shape_row(const BenchSettings& s, const std::string& bench, const BenchDevice& device,
                                 const std::string& dtype, int batch) {
  nlohmann::ordered_json row = bench_row(bench, device, s.model, dtype);
  row["batch"] = batch;
  row["seq"] = s.seq;
  return row;
}

/// The node computes a matrix product, or several.
bool is_product(const Node& node) {
  const std::string_view name = node.op->name;
  return name.starts_with("linear") || name.find("attention") != name.npos;
}

/// "1024 x 768 x 3072" (rows, columns, length of the sums) for a linear layer's product, else what comes out.
std::string shape_text(const Node& node, const Program& program, double flops) {
  const Type& type = program.type(node.out[0]);
  std::string text;
  for (const int64_t size : type.shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  if (std::string_view(node.op->name).starts_with("linear"))
    text += fmt::format(" x {:.0f}", flops / 2 / static_cast<double>(elements(type)));
  return text;
}

/// Products of similar shape as one row each; those with less than a thousandth of all operations are only in
/// the sum.
void add_products(const BenchSettings& s, const BenchDevice& device, const std::string& dtype, int batch,
                  BenchReport& report) {
  Training training(s, device, dtype, batch);
  milliseconds_of_calls(kWarmup, [&] { training.step(); });
  const auto [ms, calls] = training.node_times(s.steps);
  const Program& program = training.program();
  std::map<std::tuple<std::string, double, std::string>, Group> groups;  // op, operations of one, shape
  Group sum;
  for (size_t n = 0; n < ms.size(); ++n) {
    const Node& node = program.nodes()[n];
    if (!is_product(node)) continue;
    const double flops = node.op->cost(node, program).flops;
    for (Group* g : {&groups[{node.op->name, flops, shape_text(node, program, flops)}], &sum})
      g->ms += ms[n], g->flops += flops, ++g->count;
  }
  const auto add = [&](const std::string& op, const std::string& shape, const Group& g) {
    nlohmann::ordered_json row = shape_row(s, "gemm", device, dtype, batch);
    row["op"] = op;
    row["shape"] = shape;
    row["count"] = g.count;
    row["flops"] = six_digits(g.flops);
    add_speed(row, {g.ms, g.ms, calls}, g.flops, device, bench_dtype(dtype, {"fp8"}));
    row.erase("min_ms");
    report.rows.push_back(std::move(row));
  };
  for (const auto& [key, group] : groups)
    if (group.flops >= 1e-3 * sum.flops) add(std::get<0>(key), std::get<2>(key), group);
  add("all products", "", sum);
}

}  // namespace

std::vector<BenchReport> bench_step(const BenchSettings& s) {
  const BenchDevice device = bench_devices(s, false).at(0);
  const std::string dtype = s.dtypes().at(0);
  const int batch = s.batches().at(0);
  Training training(s, device, dtype, batch);
  training.step();
  training.finish();
  const double first_ms = milliseconds_since(s.start) - device.peak_ms;
  const BenchTimes times = time_calls(kWarmup - 1, s.steps, [&] { training.step(); });
  BenchReport report{
      fmt::format("step: one training step of {}, {} x {} tokens, {}", s.model, batch, s.seq, dtype),
      {device.note()},
      {{"dtype", "dtype"},
       {"batch", "batch"},
       {"seq", "seq"},
       {"ms", "median ms", 2},
       {"min_ms", "least ms", 2},
       {"tokens_per_s", "tokens/s", 0},
       {"flops_per_s", "TFLOP/s", 3, 1e-12},
       {"percent_of_peak", "% of peak", 1},
       {"peak_memory_bytes", "memory GiB", 2, 1.0 / (1 << 30)},
       {"first_step_ms", "start to first step ms", 0}},
      {},
      {}};
  nlohmann::ordered_json row = shape_row(s, "step", device, dtype, batch);
  add_speed(row, times, training.flops(), device, bench_dtype(dtype, {"fp8"}));
  row["tokens_per_s"] = six_digits(batch * s.seq / times.median_ms * 1e3);
  row["first_step_ms"] = six_digits(first_ms);
  row["steps"] = s.steps;
  row["arena_bytes"] = training.arena_bytes();
  report.rows.push_back(std::move(row));
  note_few_calls(report, s.steps);
  std::vector<BenchReport> reports{std::move(report)};
  if (s.profile) {
    OpProfile profile(s.model, device);
    profile.add(shape_row(s, "profile", device, dtype, batch), training.program(),
                training.node_times(s.steps));
    reports.push_back(profile.report());
    note_few_calls(reports.back(), s.steps);
  }
  return reports;
}

std::vector<BenchReport> bench_gemm(const BenchSettings& s) {
  const BenchDevice device = bench_devices(s, false).at(0);
  const int batch = s.batches().at(0);
  BenchReport report{fmt::format("gemm: matrix products within a training step of {}, {} x {} tokens",
                                 s.model, batch, s.seq),
                     {device.note()},
                     {{"dtype", "dtype"},
                      {"op", "op"},
                      {"shape", "shape"},
                      {"count", "count"},
                      {"ms", "ms", 2},
                      {"flops_per_s", "TFLOP/s", 3, 1e-12},
                      {"percent_of_peak", "% of peak", 1}},
                     {},
                     {"% of peak", {"dtype", "op", "shape"}, {"percent_of_peak", "%", 1}}};
  if (device.peak && device.peak->bf16_from_l2 < 0.99 * device.peak->bf16)
    report.notes.push_back(fmt::format("bf16 with operands from the second cache: {:.3f} TFLOP/s",
                                       device.peak->bf16_from_l2 * 1e-12));
  for (const std::string& dtype : s.dtypes()) add_products(s, device, dtype, batch, report);
  note_few_calls(report, s.steps);
  return {report};
}

}  // namespace lathe
