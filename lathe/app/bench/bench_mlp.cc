// lathe bench mlp: forward and backward of a small network, as examples/simple_model.cc has it.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "lathe/api/compile.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/data/torch_random.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

constexpr int kMlpWarmup = 3;

/// Linear layers of these widths with ReLU between them.
struct SimpleModel : nn::Module {
  explicit SimpleModel(const std::vector<int>& widths) {
    for (size_t i = 1; i < widths.size(); ++i)
      layers.emplace_back(*this, fmt::format("fc{}", i), widths[i - 1], widths[i]);
  }
  std::vector<nn::Linear> layers;

  Value forward(Value x) const {
    for (size_t i = 0; i < layers.size(); ++i) x = layers[i](i == 0 ? x : relu(x));
    return x;
  }
};

/// Forward, gradients of the weights, and of the inputs but for the first layer's.
double step_flops(const std::vector<int>& widths, double rows) {
  double flops = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i)
    flops += (i == 0 ? 2 : 3) * 2 * rows * widths[i] * widths[i + 1];
  return flops;
}

/// All of them, with the time that is left on the terminal.
template <typename F>
std::vector<double> milliseconds_of_all(const std::string& label, int64_t calls, F&& call) {
  Terminal terminal(LogLevel::kInfo, true);
  terminal.begin_progress(label, calls);
  std::vector<double> ms;
  for (int64_t i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    ms.push_back(milliseconds_since(begin));
    terminal.update_progress(i + 1);
  }
  terminal.end_progress();
  return ms;
}

void add_row(const BenchSettings& s, const BenchDevice& device, Backend& backend, int batch,
             BenchReport& report) {
  const std::vector<int> widths = s.widths();
  SimpleModel model(widths);
  Compiled step = compile(backend, model, [&](Value x) { return mean(model.forward(x)); },
                          {DType::f32, {batch, widths[0]}});
  std::vector<float> input(static_cast<size_t>(batch) * static_cast<size_t>(widths[0]));
  TorchGenerator(1).normal(input);
  float loss = step.run(input);
  const auto call = [&] { loss = step.run(); };
  milliseconds_of_calls(kMlpWarmup, call);
  const std::vector<double> ms =
      s.iterations ? milliseconds_of_all(fmt::format("{}, {} rows", device.kind, batch), *s.iterations, call)
                   : milliseconds_of_calls(s.steps, call);
  if (!std::isfinite(loss)) fail(ErrorCode::kNonFinite, "bench: the loss is {}", loss);
  nlohmann::ordered_json row = bench_row("mlp", device, "simple_model", "fp32");
  row["layers"] = s.layers;
  row["batch"] = batch;
  const BenchTimes times = times_of(ms);
  add_speed(row, times, step_flops(widths, batch), device, DType::f32);
  row["seconds"] = six_digits(std::accumulate(ms.begin(), ms.end(), 0.0) / 1e3);
  row["samples_per_s"] = six_digits(batch / times.median_ms * 1e3);
  report.rows.push_back(std::move(row));
}

}  // namespace

std::vector<BenchReport> bench_mlp(const BenchSettings& s) {
  BenchReport report{
      fmt::format("mlp: forward and backward of linear layers {}, fp32", fmt::join(s.widths(), ", ")),
      {},
      {{"device", "device"},
       {"batch", "rows"},
       {"calls", "calls"},
       {"seconds", "seconds", 2},
       {"ms", "median ms", 3},
       {"min_ms", "least ms", 3},
       {"samples_per_s", "rows/s", 0},
       {"flops_per_s", "TFLOP/s", 3, 1e-12},
       {"percent_of_peak", "% of peak", 1},
       {"peak_memory_bytes", "memory GiB", 2, 1.0 / (1 << 30)}},
      {},
      {"rows/s", {"device", "batch"}, {"samples_per_s", "rows/s", 0}}};
  for (const BenchDevice& device : bench_devices(s, true)) {
    report.notes.push_back(device.note());
    const auto backend = open_device(device.kind, {device.threads});
    for (const int batch : s.batches()) add_row(s, device, *backend, batch, report);
  }
  if (!s.iterations) note_few_calls(report, s.steps);
  return {report};
}

}  // namespace lathe
