#include "lathe/train/log_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

std::string metric_text(const std::string& key, const json& value) {
  if (value.is_number() && key.find("_mem_") != std::string::npos) {
    return fmt::format("{}MB", value.get<int64_t>() >> 20);
  }
  if (value.is_number() && key.find("_runtime") != std::string::npos)
    return duration_text(value.get<double>());
  if (value.is_number() && key == "total_flos") {
    return fmt::format("{}GF", static_cast<int64_t>(std::floor(value.get<double>() / 1073741824.0)));
  }
  if (value.is_number_float()) return python_repr(python_round(value.get<double>(), 4));
  return value.is_string() ? value.get<std::string>() : python_repr(nlohmann::ordered_json(value));
}

}  // namespace

std::string log_line(const nlohmann::ordered_json& logs) {
  nlohmann::ordered_json shown = logs;
  shown.erase("total_flos");
  return python_repr(shown);
}

void add_speed(nlohmann::json& metrics, const std::string& split, std::chrono::steady_clock::time_point begin,
               std::optional<double> samples, std::optional<double> steps, std::optional<double> tokens) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto add_rate = [&](const char* what, std::optional<double> n) {
    if (n) metrics[split + what] = python_round(*n / std::max(seconds, 1e-9), 3);
  };
  metrics[split + "_runtime"] = python_round(seconds, 4);
  add_rate("_samples_per_second", samples);
  add_rate("_steps_per_second", steps);
  add_rate("_tokens_per_second", tokens);
}

bool is_speed_key(std::string_view key) {
  return key.ends_with("_runtime") || key.ends_with("_per_second") || key == "epoch" || key == "step";
}

bool is_score_key(std::string_view key) {
  const bool change = key.find("_int8_change_") != key.npos || key.find("_fp8_change_") != key.npos;
  return key.starts_with("eval_") && !is_speed_key(key) && !change && key != "eval_samples";
}

std::string metrics_block(std::string_view split, const json& metrics) {
  std::map<std::string, std::string> lines;
  size_t key_width = 0, value_width = 0;
  for (const auto& [key, value] : metrics.items()) {
    const auto& text = lines[key] = metric_text(key, value);
    key_width = std::max(key_width, key.size());
    value_width = std::max(value_width, text.size());
  }
  std::string out = fmt::format("***** {} metrics *****\n", split);
  for (const auto& [key, text] : lines)
    out += fmt::format("  {:<{}} = {:>{}}\n", key, key_width, text, value_width);
  return out;
}

std::string quantization_table(const std::string& split, const json& metrics, std::string_view name,
                               std::string_view precision) {
  const std::string changes = fmt::format("{}_{}_change_", split, name);
  std::string lines;
  for (const auto& [key, value] : metrics.items()) {
    if (!key.starts_with(changes)) continue;
    const std::string metric = key.substr(changes.size());
    const double quantized = metrics.at(split + "_" + metric).get<double>(), change = value.get<double>();
    lines +=
        fmt::format("  {:<24} {:>9.4f} {:>9.4f} {:>+9.4f}\n", metric, quantized - change, quantized, change);
  }
  if (lines.empty()) return lines;
  return fmt::format("***** {}: {} compared with {} *****\n  {:<24} {:>9} {:>9} {:>9}\n{}", split, name,
                     precision, "", precision, name, "change", lines);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  const auto hundredths = static_cast<int64_t>(std::abs(seconds - static_cast<double>(whole)) * 100);
  const int64_t days = whole / 86400, rest = whole % 86400;
  const std::string clock =
      fmt::format("{}:{:02}:{:02}.{:02}", rest / 3600, rest / 60 % 60, rest % 60, hundredths);
  return days == 0 ? clock : fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

std::vector<std::string> banner_lines(const TrainingBanner& b) {
  return {"***** Running training *****",
          "  Num examples = " + with_commas(b.examples),
          "  Num Epochs = " + with_commas(b.epochs),
          "  Num update steps per epoch = " + with_commas(b.update_steps_per_epoch),
          "  Instantaneous batch size per device = " + with_commas(b.batch_size_per_device),
          "  Total train batch size (w. parallel, distributed & accumulation) = " +
              with_commas(b.total_batch_size),
          fmt::format("  Gradient Accumulation steps = {}", b.gradient_accumulation_steps),
          "  Total optimization steps = " + with_commas(b.total_steps),
          "  Number of trainable parameters = " + with_commas(b.trainable_parameters)};
}

std::vector<std::string> banner_lines(std::string_view what, int64_t examples, int64_t batch_size) {
  return {fmt::format("***** Running {} *****", what), fmt::format("  Num examples = {}", examples),
          fmt::format("  Batch size = {}", batch_size)};
}

std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  const int first = n < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

}  // namespace lathe
