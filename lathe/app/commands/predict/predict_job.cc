#include "lathe/app/commands/predict/predict_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/terminal/signals.h"
#include "lathe/backends/register.h"
#include "lathe/data/glue_tasks.h"
#include "lathe/io/json_file.h"
#include "lathe/report/run_facts.h"

namespace lathe {
namespace {

void warn(const std::string& text) { print_error(text + "\n"); }

/// The value of a setting, or null.
nlohmann::json setting(const RunFacts& facts, const char* name) {
  const auto found = facts.settings.find(name);
  return found == facts.settings.end() ? nlohmann::json() : nlohmann::json(*found);
}

}  // namespace

TrainedOn trained_on(FileSystem& fs, const std::string& folder) {
  TrainedOn trained;
  const bool in_checkpoint = !fs.exists(join_path(folder, kRunFile));
  const std::string place = in_checkpoint ? parent_folder(folder) : folder;
  if (in_checkpoint && !file_name(folder).starts_with("checkpoint-")) return trained;
  if (!fs.exists(join_path(place, kRunFile))) return trained;
  try {
    const RunFacts facts = read_run_file(fs, place);
    trained.columns = facts.text_columns;
    trained.pairs = facts.text_pairs;
    if (const auto between = setting(facts, "text_column_delimiter"); between.is_string())
      trained.joined_by = between.get<std::string>();
    if (facts.settings.contains("text_column_name")) return trained;  // of lathe ner, whose tasks are others
    if (const auto task = setting(facts, "task_name"); task.is_string()) {
      const GlueTask& glue = glue_task(task.get<std::string>());
      trained.pairs = !glue.second_key.empty();
      trained.columns = {glue.first_key};
      if (trained.pairs) trained.columns.push_back(glue.second_key);
    }
    trained.version_2_with_negative = setting(facts, "version_2_with_negative") == true;
    if (const auto most = setting(facts, "null_score_diff_threshold"); most.is_number())
      trained.null_score_diff_threshold = most.get<double>();
  } catch (const Error&) {
    return {};  // a file of that name that tells nothing
  }
  return trained;
}

TrainerHooks Predictor::hooks() {
  TrainerHooks hooks;
  hooks.message = [](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarning) warn(text);
  };
  hooks.on_evaluation_step = [this](int64_t batch, int64_t batches) {
    if (on_batch) on_batch(batch, batches);
  };
  hooks.should_stop = [] { return stop_signal() != 0; };
  return hooks;
}

Predictor::Predictor(PredictSettings& settings, const ModelFolders& folders, MakeTask task)
    : settings_(settings),
      model_(from_pretrained(real_file_system(), folders, {task, {}, false})),
      pool_(settings.pool_threads),
      length_(std::min(settings.max_seq_length, longest_text(model_))),
      backend_(open_device(settings.device_kind, {settings.pool_threads, false, warn})) {
  trainer_.emplace(*backend_, model_, settings, nullptr, nullptr, hooks());
  const LoadReport& report = trainer_->load_report();
  if (!report.missing.empty())
    fail(ErrorCode::kInvalidData, "{}\nSuch a model predicts at random; fine-tune it first.",
         to_string(report, *model_.model, folders.weights));
  if (!report.unexpected.empty() && folders.adapter.empty())  // a base may have another head
    warn(to_string(report, *model_.model, folders.weights));
}

Predictions Predictor::predict(const TokenizedDataset& data) {
  const nn::Quantization quantization = evaluation_quantization(settings_);
  Predictions p = trainer_->predict(data, quantization);
  const bool comparable = !model_.model->task().scores_texts();
  if (comparable && quantization != nn::Quantization::kNone && samples_ == 0) {
    comparison_ = trainer_->compare(p, trainer_->predict(data, nn::Quantization::kNone));
    compared_ = data.size();
  }
  samples_ += data.size();
  tokens_ += data.tokens();
  unpredicted_ += unpredicted(p);
  if (sigmoid_)
    for (float& x : p.logits) x = 1 / (1 + std::exp(-x));
  return p;
}

void Predictor::finish() {
  trainer_->warn_of_unpredicted(unpredicted_, samples_);
  if (comparison_.empty()) return;
  warn(comparison_ + (compared_ < samples_ ? fmt::format(" (of the first {})", compared_) : ""));
}

}  // namespace lathe
