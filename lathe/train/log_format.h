#pragma once
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/log.h"

namespace lathe {

/// A line of the log history as it is printed: {'loss': 0.6975, 'grad_norm': 0.5073649883270264,
/// 'learning_rate': 1e-05, 'epoch': 0.25}. total_flos is left out.
std::string log_line(const nlohmann::ordered_json& logs);

/// Adds <split>_runtime and, for each given count, _samples_per_second, _steps_per_second and
/// _tokens_per_second.  Rounds as transformers' speed_metrics does.
void add_speed(nlohmann::json& metrics, const std::string& split, std::chrono::steady_clock::time_point begin,
               std::optional<double> samples, std::optional<double> steps, std::optional<double> tokens = {});

/// Whether a key of the log history is about time ("eval_runtime", "epoch") and not about quality.
bool is_speed_key(std::string_view key);
/// Whether a key says how good the model is in an evaluation ("eval_loss", "eval_accuracy").  False for what
/// quantization changes in that ("eval_int8_change_accuracy") and for how much was evaluated.
bool is_score_key(std::string_view key);

/// "***** train metrics *****" and one aligned line per metric, sorted, each ended by a newline.
/// Source: trainer_pt_utils.py, log_metrics and metrics_format.
std::string metrics_block(std::string_view split, const nlohmann::json& metrics);

/// A table of loss and metrics of an evaluation with --int8 or --fp8 (Trainer::evaluate): with `precision`,
/// with `name` ("int8", "fp8"), and the change.  Empty if there is nothing to compare.
std::string quantization_table(const std::string& split, const nlohmann::json& metrics, std::string_view name,
                               std::string_view precision);

/// 3725.5 → "1:02:05.50"
std::string duration_text(double seconds);

/// What is printed before the first step.
struct TrainingBanner {
  int64_t examples = 0, epochs = 0, update_steps_per_epoch = 0, batch_size_per_device = 0,
          total_batch_size = 0;
  int64_t gradient_accumulation_steps = 1, total_steps = 0, trainable_parameters = 0;
};
/// "***** Running training *****" and the lines under it.
std::vector<std::string> banner_lines(const TrainingBanner& banner);
/// "***** Running Evaluation *****" (or "Prediction") and the lines under it.
std::vector<std::string> banner_lines(std::string_view what, int64_t examples, int64_t batch_size);

/// 1234567 → "1,234,567"
std::string with_commas(int64_t n);

}  // namespace lathe
