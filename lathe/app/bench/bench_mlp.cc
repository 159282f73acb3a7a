// lathe bench mlp: forward and backward of a small network, as examples/simple_model.cc has it.
#include <fmt/format.h>

#include <cmath>

#include "lathe/api/compile.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/data/torch_random.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

constexpr int kMlpWarmup = 3;
constexpr int64_t kWidths[] = {1024, 512, 256, 10};

struct SimpleModel : nn::Module {
  nn::Linear fc1{*this, "fc1", kWidths[0], kWidths[1]};
  nn::Linear fc2{*this, "fc2", kWidths[1], kWidths[2]};
  nn::Linear fc3{*this, "fc3", kWidths[2], kWidths[3]};

  Value forward(Value x) const { return fc3(relu(fc2(relu(fc1(x))))); }
};

/// Forward, gradients of the weights, and of the inputs but for the first layer's.
double step_flops(double rows) {
  double flops = 0;
  for (int i = 0; i < 3; ++i)
    flops += (i == 0 ? 2 : 3) * 2 * rows * static_cast<double>(kWidths[i] * kWidths[i + 1]);
  return flops;
}

void add_row(const BenchSettings& s, const BenchDevice& device, Backend& backend, int batch,
             BenchReport& report) {
  SimpleModel model;
  Compiled step = compile(backend, model, [&](Value x) { return mean(model.forward(x)); },
                          {DType::f32, {batch, kWidths[0]}});
  std::vector<float> input(static_cast<size_t>(batch * kWidths[0]));
  TorchGenerator(1).normal(input);
  float loss = step.run(input);
  const BenchTimes times = time_calls(kMlpWarmup, s.steps, [&] { loss = step.run(); });
  if (!std::isfinite(loss)) fail(ErrorCode::kNonFinite, "bench: the loss is {}", loss);
  nlohmann::ordered_json row = bench_row("mlp", device, "simple_model", "fp32");
  row["batch"] = batch;
  add_speed(row, times, step_flops(batch), device, DType::f32);
  row["samples_per_s"] = six_digits(batch / times.median_ms * 1e3);
  report.rows.push_back(std::move(row));
}

}  // namespace

std::vector<BenchReport> bench_mlp(const BenchSettings& s) {
  BenchReport report{"mlp: forward and backward of linear layers 1024, 512, 256, 10, fp32",
                     {},
                     {{"device", "device"},
                      {"batch", "rows"},
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
  note_few_calls(report, s.steps);
  return {report};
}

}  // namespace lathe
