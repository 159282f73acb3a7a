#include "lathe/app/bench/bench_work.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/core/cpu_limits.h"
#include "lathe/core/host_memory.h"
#include "lathe/core/thread_pool.h"
#include "lathe/io/model_folder.h"
#include "lathe/models/family.h"
#include "lathe/ops/attention.h"
#include "lathe/train/trainer_arguments.h"

namespace lathe {

BenchTimes times_of(std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  const size_t middle = ms.size() / 2;
  return {ms.size() % 2 == 1 ? ms[middle] : (ms[middle - 1] + ms[middle]) / 2, ms.front(),
          static_cast<int>(ms.size())};
}

std::optional<double> BenchDevice::peak_flops(DType dtype) const {
  if (!peak) return {};
  return dtype == DType::bf16 ? peak->bf16 : dtype == DType::f16 ? peak->f16 : peak->f32;
}

std::string BenchDevice::note() const {
  if (!peak) return name + "; its peak is not measured";
  return fmt::format("{}; peak measured first: fp32 {:.3f}, bf16 {:.3f} TFLOP/s", name, peak->f32 * 1e-12,
                     peak->bf16 * 1e-12);
}

BenchDevice unmeasured_device(const std::string& kind, int threads) {
  BenchDevice device;
  device.kind = kind;
  device.threads = threads > 0 ? threads : default_threads();
  device.name = fmt::format("{}, {} thread{}", device_status(kind).detail, device.threads,
                            device.threads == 1 ? "" : "s");
  return device;
}

BenchDevice bench_device(const std::string& kind, int threads) {
  BenchDevice device = unmeasured_device(kind, threads);
  const auto begin = std::chrono::steady_clock::now();
  device.peak = measure_peak(kind, {threads});
  device.peak_ms = milliseconds_since(begin);
  return device;
}

std::vector<BenchDevice> bench_devices(const BenchSettings& settings, bool all) {
  std::vector<BenchDevice> found;
  if (settings.device != "auto") {
    open_device(settings.device, {1});  // says what is wrong with the name
    return {bench_device(settings.device, settings.threads)};
  }
  for (const DeviceStatus& status : devices())
    if (status.available && status.kind != "ref" && (all || found.empty()))
      found.push_back(bench_device(status.kind, settings.threads));
  return found;
}

DType bench_dtype(const std::string& name, const std::vector<std::string>& quantized) {
  if (name == "bf16" || std::ranges::find(quantized, name) != quantized.end()) return DType::bf16;
  if (name == "fp16") return DType::f16;
  if (name == "fp32") return DType::f32;
  fail(ErrorCode::kUsage, "--dtype: found {}, expected bf16, fp16 or fp32{}{}", name,
       quantized.empty() ? "" : ", or ", fmt::join(quantized, " or "));
}

nn::Quantization bench_quantization(const std::string& name, const Backend& backend) {
  if (name == "int8") return nn::Quantization::kInt8;
  if (name != "fp8") return nn::Quantization::kNone;
  check_fp8(backend);
  return nn::Quantization::kFp8;
}

bool is_bench_shape(const std::string& name) { return name == "bert-base" || name == "minilm"; }

AutoModel bench_model(const std::string& name, const std::vector<std::string>& labels,
                      const ModelNeed& need) {
  const HeadOptions head{single_label, labels, true};
  if (!is_bench_shape(name)) {
    FileSystem& fs = real_file_system();
    const std::string folder = named_model(name);
    ModelFolders folders{folder, folder, folder};
    // Weights that are there but not whole are a fault to be told.
    if (!need.weights && !has_weights(fs, folder)) folders.weights.clear();
    if (!need.tokenizer && !missing_files(fs, folder, {.weights = false, .tokenizer = true}).empty())
      folders.tokenizer.clear();
    return from_pretrained(fs, folders, head);
  }
  ModelConfig config;
  if (name == "minilm")
    config.hidden_size = 384, config.num_hidden_layers = 6, config.intermediate_size = 1536;
  return from_config(config, head, std::nullopt);
}

void check_seq(const BenchSettings& settings, const AutoModel& model) {
  const int64_t longest = model.model->max_positions();
  if (settings.seq > longest)
    fail(ErrorCode::kUsage, "--seq: found {}, expected at most {}: {} has no more positions", settings.seq,
         longest, settings.model);
}

void write_weights(Session& session, const AutoModel& model) {
  if (model.checkpoint) {
    initialize(session.parameters(), model, 42);
    return;
  }
  const float scale = static_cast<float>(model.config.initializer_range * std::sqrt(3.0) / 2147483648.0);
  const auto& parameters = model.model->parameters();
  const auto count_of = [](const nn::Parameter& p) { return static_cast<size_t>(elements(p.shape)); };
  const auto is_drawn = [](const nn::Parameter& p) {
    return p.init == nn::Init::kNormal || p.init == nn::Init::kTruncated;
  };
  size_t most = 0;
  for (const nn::Parameter& p : parameters) most = std::max(most, count_of(p));
  const auto values = std::make_unique_for_overwrite<float[]>(most);  // its pages come with all threads
  struct Drawn {
    size_t parameter, at, number;  // where its values lie, and how many were drawn before them
  };
  std::vector<Drawn> held;
  const auto draw = [&](const Drawn& h, int part, int parts) {
    const nn::Parameter& p = parameters[h.parameter];
    const bool random = is_drawn(p);
    const float constant = p.init == nn::Init::kOnes ? 1.0f : 0.0f;
    const Share mine = share(static_cast<long>(count_of(p)), part, parts);
    for (size_t k = static_cast<size_t>(mine.begin); k < static_cast<size_t>(mine.end); ++k) {
      // Knuth's multiplicative hash, stirred once more
      uint32_t x = static_cast<uint32_t>(h.number + k + 1) * 2654435761u;
      x = (x ^ (x >> 15)) * 2246822519u;
      values[h.at + k] = random ? scale * static_cast<float>(static_cast<int32_t>(x ^ (x >> 13))) : constant;
    }
  };
  ThreadPool pool;
  const auto write_held = [&] {
    pool.run([&](int part, int parts) {
      for (const Drawn& h : held) draw(h, part, parts);
    });
    for (const Drawn& h : held)
      session.parameters().write(static_cast<int>(h.parameter),
                                 {values.get() + h.at, count_of(parameters[h.parameter])});
    held.clear();
  };
  // As many at once as the memory holds: threads of this pool and of the device's wait awake for their turns,
  // on the same cores.
  size_t at = 0, number = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t count = count_of(parameters[i]);
    if (at + count > most) write_held(), at = 0;
    held.push_back({i, at, number});
    at += count;
    if (is_drawn(parameters[i])) number += count;
  }
  write_held();
}

Bucket bench_bucket(int64_t tokens, int64_t rows, TokenRounding rounding) { return {rounding(tokens), rows}; }

PackedBatch bench_batch(std::span<const int> lengths, int64_t vocab_size, bool labels,
                        TokenRounding rounding) {
  PackedBatch batch;
  batch.rows = static_cast<int>(lengths.size());
  batch.cu_seqlens = {0};
  for (int row = 0; row < batch.rows; ++row) {
    const int length = lengths[static_cast<size_t>(row)];
    batch.longest_row = std::max(batch.longest_row, length);
    batch.cls_index.push_back(batch.cu_seqlens.back());
    if (labels) batch.tensors.ints("labels").push_back(row % 2);
    for (int t = 0; t < length; ++t) {
      batch.input_ids.push_back(
          static_cast<int32_t>((int64_t{row} * 7919 + int64_t{t} * 104729) % vocab_size));
      batch.position_ids.push_back(t);
      batch.sample_ids.push_back(row);
    }
    batch.cu_seqlens.push_back(batch.cu_seqlens.back() + length);
  }
  batch.tokens = static_cast<int>(rounding(batch.cu_seqlens.back()));
  for (auto* v : {&batch.input_ids, &batch.position_ids, &batch.sample_ids, &batch.token_type_ids})
    v->resize(static_cast<size_t>(batch.tokens), 0);
  return batch;
}

double forward_flops(const ModelConfig& c, std::span<const int> lengths) {
  const bool modern = family_of(c.model_type, c.file).modern;
  const double h = static_cast<double>(c.hidden_size);
  const double projections = 3 * h * h;
  const double behind = h * h + (modern ? 3 : 2) * h * static_cast<double>(c.intermediate_size);
  double flops = 0;
  for (const int length : lengths) {
    const double n = length;
    if (c.embedding_size != c.hidden_size) flops += 2 * n * static_cast<double>(c.embedding_size) * h;
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      const bool last = layer + 1 == c.num_hidden_layers;
      const bool local = modern && c.modern.local[static_cast<size_t>(layer)];
      flops += 2 * projections * n + 4 * op::attended_pairs(n, local ? c.modern.window : 0) * h;
      flops += 2 * behind * (last && !c.modern.mean_pooling ? 1 : n);
    }
  }
  return flops;
}

nlohmann::ordered_json bench_row(const std::string& bench, const BenchDevice& device,
                                 const std::string& model, const std::string& dtype) {
  nlohmann::ordered_json row;
  row["bench"] = bench;
  row["device"] = device.kind;
  row["model"] = model;
  row["dtype"] = dtype;
  row["threads"] = device.threads;
  return row;
}

void add_speed(nlohmann::ordered_json& row, const BenchTimes& times, double flops, const BenchDevice& device,
               DType dtype) {
  const double per_second = flops / times.median_ms * 1e3;
  const std::optional<double> peak = device.peak_flops(dtype);
  row["ms"] = six_digits(times.median_ms);
  row["min_ms"] = six_digits(times.min_ms);
  row["calls"] = times.calls;
  row["flops_per_s"] = six_digits(per_second);
  row["percent_of_peak"] = peak ? nlohmann::ordered_json(six_digits(100 * per_second / *peak)) : nullptr;
  row["peak_flops_per_s"] = peak ? nlohmann::ordered_json(six_digits(*peak)) : nullptr;
  const std::optional<uint64_t> own = peak_device_bytes(device.kind);
  const std::optional<uint64_t> memory = own ? own : peak_resident_bytes();
  row["peak_memory_bytes"] = memory ? nlohmann::ordered_json(*memory) : nullptr;
}

void note_few_calls(BenchReport& report, int wanted) {
  int fewest = wanted;
  for (const nlohmann::ordered_json& row : report.rows) fewest = std::min(fewest, row["calls"].get<int>());
  if (fewest < wanted)
    report.notes.push_back(
        fmt::format("medians of as few as {} of {} calls: none begins when those before it took {}", fewest,
                    wanted, kPatience));
}

}  // namespace lathe
