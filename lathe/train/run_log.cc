#include "lathe/train/run_log.h"

#include <algorithm>
#include <utility>

#include "lathe/engine/ranks.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

int64_t non_embedding_parameters(const TaskModel& model) {
  int64_t count = 0;
  for (const nn::Parameter& p : model.parameters())
    if (p.name.find("embeddings.weight") == std::string::npos) count += elements(p.shape);
  return count;
}

}  // namespace

RunLog::RunLog(const TrainingArguments& args, const TrainerHooks& hooks, const TaskModel& model,
               ProcessGroup* group, TrainerState& state)
    : args_(args), hooks_(hooks), group_(group), state_(state), parameters_(non_embedding_parameters(model)) {
  begin();
}

void RunLog::begin() {
  started_at_ = std::chrono::steady_clock::now();
  flos_ = tokens_ = real_tokens_ = 0;
  group_stops_ = false;
}

void RunLog::say(LogLevel level, const std::string& text) const {
  if (hooks_.message && speaks_for_all(group_, args_.log_level_replica)) hooks_.message(level, text);
}

void RunLog::count(const PackedBatch& batch) {
  const double padded = static_cast<double>(std::max(batch.longest_row, pad_to_)) * batch.rows;
  const auto real = static_cast<double>(batch.real_tokens());
  flos_ += 6.0 * padded * static_cast<double>(parameters_);
  real_tokens_ += real;
  if (counts_tokens()) tokens_ += args_.include_num_input_tokens_seen == "all" ? padded : real;
}

void RunLog::share_counts() {
  const bool stop = in_training_ && group_ != nullptr && asked_to_stop();
  const std::vector<double> sums = sum_over(group_, {flos_, tokens_, real_tokens_, stop ? 1.0 : 0.0});
  state_.total_flos += sums[0];
  state_.num_input_tokens_seen += static_cast<int64_t>(sums[1]);
  trained_tokens_ += static_cast<int64_t>(sums[2]);
  if (sums[3] > 0) note_stop();  // after an evaluation: the next update may bring another
  flos_ = tokens_ = real_tokens_ = 0;
}

void RunLog::write(nlohmann::ordered_json entry, bool of_training) {
  share_counts();
  entry["epoch"] = state_.epoch;
  if (counts_tokens()) entry["num_input_tokens_seen"] = state_.num_input_tokens_seen;
  if (counts_tokens() && of_training) {
    nlohmann::json speed;
    add_speed(speed, "train", started_at_, {}, {},
              static_cast<double>(state_.num_input_tokens_seen - first_tokens_));
    entry.update(nlohmann::ordered_json(speed));
  }
  if (hooks_.on_log) hooks_.on_log(entry);
  entry["step"] = state_.global_step;
  state_.log_history.push_back(std::move(entry));
  if (hooks_.on_record) hooks_.on_record(state_.log_history.back());
}

void RunLog::add_place(nlohmann::json& metrics) const {
  if (state_.global_step > 0) metrics["epoch"] = state_.epoch;
  if (counts_tokens()) metrics["num_input_tokens_seen"] = state_.num_input_tokens_seen;
}

void RunLog::add_memory(const MemoryMetrics& memory, nlohmann::json& metrics) {
  memory.finish(metrics);
  if (memory_of_start_.is_object()) metrics.update(memory_of_start_);
  memory_of_start_ = nullptr;
}

}  // namespace lathe
