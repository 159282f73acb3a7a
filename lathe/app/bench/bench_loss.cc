// lathe bench loss: the loss over a vocabulary and its gradients, by ops that hold all logits and by the one
// that does not.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "lathe/app/bench/bench_work.h"
#include "lathe/core/float16.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/ops.h"
#include "lathe/program/autograd.h"
#include "lathe/program/fuse.h"

namespace lathe {
namespace {

constexpr int kLossWarmup = 2;

/// A linear layer's cross entropy and the gradients of x, w and b, on a device.
class LossProgram {
 public:
  LossProgram(Backend& backend, DType dtype, int64_t rows, int64_t classes, int64_t width, bool one_op)
      : rows_(rows),
        classes_(classes),
        width_(width),
        x_(static_cast<size_t>(rows * width) * size_of(dtype)) {
    const Value x = program_.input("x", {dtype, {rows, width}});
    const Value labels = program_.input("labels", {DType::i32, {rows}});
    const Value seed = program_.input("seed", {DType::f32, {1}});
    const Value w = program_.state("w", {DType::f32, {classes, width}});
    const Value b = program_.state("b", {DType::f32, {classes}});
    const Value loss = one_op ? linear_cross_entropy(x, w, b, labels).loss
                              : emit(op::cross_entropy, {cast(linear(x, w, b), DType::f32), labels})[0];
    program_.output("loss", loss);
    const char* names[] = {"dx", "dw", "db"};
    const std::vector<Value> gradient = gradients(loss, seed, {x, w, b}, op::add);
    for (size_t i = 0; i < gradient.size(); ++i) program_.output(names[i], gradient[i], true);
    program_.remove_dead_nodes();
    fuse(program_, backend, fusions());
    selection_ = select(program_, backend);
    plan_ = backend.plan(program_, selection_);
    bind(backend);
    executable_ = backend.compile(program_, selection_, plan_, bindings_).value();
    labels_.resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i)
      labels_[static_cast<size_t>(i)] = static_cast<int32_t>(7919 * i % classes);
    store_x(dtype);
  }

  void run() {
    const Slot slot{{x_, std::as_bytes(std::span(labels_)), std::as_bytes(std::span(&seed_, 1))}};
    Event event;
    executable_->run(slot, &event).check();
    float loss = 0;
    executable_->read(event, 0, std::as_writable_bytes(std::span(&loss, 1))).check();
    if (!std::isfinite(loss)) fail(ErrorCode::kNonFinite, "bench: the loss is {}", loss);
  }
  /// Of three products.
  double flops() const {
    return 6 * static_cast<double>(rows_) * static_cast<double>(classes_) * static_cast<double>(width_);
  }
  size_t arena_bytes() const { return plan_.arena_bytes; }

 private:
  /// Numbers of the size of a model's.
  static float number(size_t i) {
    return 0.05f * static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
  }

  void bind(Backend& backend) {
    for (const auto& value : program_.values()) {
      if (value.kind != ValueKind::kState) continue;
      std::vector<float> numbers(static_cast<size_t>(elements(value.type)));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(i % 1009);
      const Buffer buffer = backend.allocate(bytes_of(value.type)).value();
      backend.copy_in(buffer, 0, std::as_bytes(std::span(numbers))).check();
      bindings_.states[value.name] = buffer;
    }
    bindings_.arena = backend.allocate(plan_.arena_bytes).value();
  }
  void store_x(DType dtype) {
    for (size_t i = 0; i < x_.size() / size_of(dtype); ++i) {
      const float x = 20 * number(i % 997);
      const bf16 b = to_bf16(x);
      const f16 h = to_f16(x);
      const void* from = dtype == DType::bf16  ? static_cast<const void*>(&b)
                         : dtype == DType::f16 ? static_cast<const void*>(&h)
                                               : &x;
      std::memcpy(x_.data() + i * size_of(dtype), from, size_of(dtype));
    }
  }

  int64_t rows_, classes_, width_;
  Program program_;
  Selection selection_;
  MemoryPlan plan_;
  Bindings bindings_;
  std::unique_ptr<Executable> executable_;
  std::vector<std::byte> x_;
  std::vector<int32_t> labels_;
  float seed_ = 1;
};

}  // namespace

std::vector<BenchReport> bench_loss(const BenchSettings& s) {
  const BenchDevice device = bench_devices(s, false).at(0);
  const ModelConfig config = bench_model(s.model, {"a", "b"}).config;
  const auto backend = open_device(device.kind, {device.threads});
  BenchReport report{fmt::format("loss: cross entropy over {} classes of rows of {}, and the gradients",
                                 config.vocab_size, config.hidden_size),
                     {device.note()},
                     {{"dtype", "dtype"},
                      {"rows", "rows"},
                      {"way", "way"},
                      {"ms", "median ms", 2},
                      {"min_ms", "least ms", 2},
                      {"ratio", "of separate ops", 3},
                      {"flops_per_s", "TFLOP/s", 3, 1e-12},
                      {"percent_of_peak", "% of peak", 1},
                      {"arena_bytes", "arena MiB", 0, 1.0 / (1 << 20)}},
                     {},
                     {}};
  for (const std::string& dtype : s.dtypes())
    for (const int rows : s.batches()) {
      LossProgram apart(*backend, bench_dtype(dtype), rows, config.vocab_size, config.hidden_size, false);
      LossProgram one(*backend, bench_dtype(dtype), rows, config.vocab_size, config.hidden_size, true);
      std::vector<double> ms[2];
      milliseconds_of_calls(kLossWarmup, [&] { apart.run(), one.run(); });
      milliseconds_of_calls(s.steps, [&] {  // in turns: other programs slow both
        ms[0].push_back(milliseconds_of_calls(1, [&] { apart.run(); })[0]);
        ms[1].push_back(milliseconds_of_calls(1, [&] { one.run(); })[0]);
      });
      const double all = times_of(ms[0]).median_ms;
      for (const bool one_op : {false, true}) {
        nlohmann::ordered_json row = bench_row("loss", device, s.model, dtype);
        row["rows"] = rows;
        row["way"] = one_op ? "one op" : "separate ops";
        const BenchTimes times = times_of(ms[one_op]);
        add_speed(row, times, one.flops(), device, bench_dtype(dtype));
        row["ratio"] = six_digits(times.median_ms / all);
        row["arena_bytes"] = (one_op ? one : apart).arena_bytes();
        report.rows.push_back(std::move(row));
      }
    }
  note_few_calls(report, s.steps);
  return {report};
}

}  // namespace lathe
