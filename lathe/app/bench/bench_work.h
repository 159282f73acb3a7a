#pragma once
#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/app/bench/bench.h"
#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/io/hub/hub.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// Milliseconds per call, and the number of calls.
struct BenchTimes {
  double median_ms = 0, min_ms = 0;
  int calls = 0;
};

inline double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

BenchTimes times_of(std::vector<double> ms);

/// No further call begins after calls in a row have taken this long.
inline constexpr std::chrono::seconds kPatience{30};

/// Milliseconds of each of `calls` calls, or of those that begin within kPatience; the first always does.
template <typename Clock = std::chrono::steady_clock, typename F>
std::vector<double> milliseconds_of_calls(int calls, F&& call) {
  std::vector<double> ms;
  const auto first = Clock::now();
  for (auto begin = first; std::ssize(ms) < calls && (ms.empty() || begin - first < kPatience);) {
    call();
    const auto end = Clock::now();
    ms.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
    begin = end;
  }
  return ms;
}

/// Times `runs` calls after `warmup` others; fewer of both if they take longer than kPatience.
template <typename Clock = std::chrono::steady_clock, typename F>
BenchTimes time_calls(int warmup, int runs, F&& call) {
  milliseconds_of_calls<Clock>(warmup, call);
  return times_of(milliseconds_of_calls<Clock>(runs, call));
}

/// A device and its peak, which is measured before anything else.
struct BenchDevice {
  std::string kind, name;
  std::optional<DevicePeak> peak;
  double peak_ms = 0;  ///< how long measuring it took
  int threads = 0;

  /// Empty if it was not measured.
  std::optional<double> peak_flops(DType dtype) const;
  /// "peak measured first: …", or that there is none.
  std::string note() const;
};
BenchDevice bench_device(const std::string& kind, int threads);
/// The same without a peak.
BenchDevice unmeasured_device(const std::string& kind, int threads);
/// The device that the settings name; for "auto" the best one, or with `all` every one but the reference.
std::vector<BenchDevice> bench_devices(const BenchSettings& settings, bool all);

/// The dtype of activations: "bf16", "fp16" or "fp32".  Names in `quantized` ("int8", "fp8") give bf16.
/// Errors: kUsage.
DType bench_dtype(const std::string& name, const std::vector<std::string>& quantized = {});
/// The dtype of products in linear layers.  Errors: kUnsupported if the device has no fp8.
nn::Quantization bench_quantization(const std::string& name, const Backend& backend);

/// A classifier of the given labels: "bert-base" and "minilm" (6 layers of 384) with random weights, or the
/// content of a model folder, which may lack files that are not needed.  Errors: kUsage, kNotFound; those of
/// open_checkpoint for existing weights, needed or not.
AutoModel bench_model(const std::string& name, const std::vector<std::string>& labels,
                      const ModelNeed& need = {.weights = false, .tokenizer = false});
/// Errors: kUsage if --seq is more than the model takes.
void check_seq(const BenchSettings& settings, const AutoModel& model);
/// Whether the name is one of the two.
bool is_bench_shape(const std::string& name);

/// Writes the model's weights into the session: those of its folder, else numbers with the spread of new
/// weights.  These are made faster than the Trainer's, whose random generator would take longer than some
/// steps.
void write_weights(Session& session, const AutoModel& model);

/// The shape of a packed batch.
Bucket bench_bucket(int64_t tokens, int64_t rows, TokenRounding rounding);
/// Rows of these lengths, tokens (7919 · row + 104729 · position) mod vocab_size, labels row mod 2.
PackedBatch bench_batch(std::span<const int> lengths, int64_t vocab_size, bool labels,
                        TokenRounding rounding);

/// Matrix products of one forward pass of a classifier, attention included; a training step has three times
/// that number.
double forward_flops(const ModelConfig& config, std::span<const int> lengths);

/// {"bench", "device", "model", "dtype", "threads"}: the first keys of every row.
nlohmann::ordered_json bench_row(const std::string& bench, const BenchDevice& device,
                                 const std::string& model, const std::string& dtype);

/// Adds ms, min_ms, calls, flops_per_s, percent_of_peak, peak_flops_per_s, peak_memory_bytes.
void add_speed(nlohmann::ordered_json& row, const BenchTimes& times, double flops, const BenchDevice& device,
               DType dtype);

/// Adds a note to the report if some of its rows have fewer calls than were requested.
void note_few_calls(BenchReport& report, int wanted);

}  // namespace lathe
