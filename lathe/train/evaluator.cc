#include "lathe/train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/tasks/check_dataset.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/log_format.h"
#include "lathe/train/memory_metrics.h"
#include "lathe/train/trainer_arguments.h"
#include "lathe/train/training_plan.h"

namespace lathe {
namespace {

/// Adds the seconds of its life to a sum.
class Seconds {
 public:
  explicit Seconds(double& sum) : sum_(sum) {}
  ~Seconds() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Seconds(const Seconds&) = delete;
  Seconds& operator=(const Seconds&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// The counts of SQuAD's and seqeval's scores are integers, as in Python.
nlohmann::json metric_value(const std::string& name, double value) {
  constexpr double kMost = int64_t{1} << 53;
  const bool is_count = (name == "total" || name.ends_with("_total") || name.ends_with("_number")) &&
                        value >= 0 && value < kMost;
  if (is_count && std::trunc(value) == value) return static_cast<int64_t>(value);
  return value;
}

/// Where the scores of each sample begin: those of its rows, of its tokens, or of those that are scored.
std::vector<int64_t> first_scores(const TokenizedDataset& data, bool per_token) {
  if (!per_token) return data.first_rows;
  const std::vector<int32_t> scored = data.scored();
  std::vector<int64_t> begins{0};
  for (int64_t i = 0; i < data.size(); ++i)
    begins.push_back(begins.back() + (scored.empty() ? data.length(i) : scored[static_cast<size_t>(i)]));
  return begins;
}

}  // namespace

Evaluator::Evaluator(Session& session, const TrainingArguments& args, const TokenizedDataset* data,
                     const TrainerHooks& hooks, RunLog& log)
    : session_(session), args_(args), data_(data), hooks_(hooks), log_(log) {}

DType Evaluator::dtype(bool in_training) const {
  return in_training ? training_dtype(args_) : evaluation_dtype(args_);
}

Work Evaluator::work(const TokenizedDataset& data, nn::Quantization quantization, DType dtype) const {
  // With so few bits nothing in an evaluation needs to be exact: f32 becomes bf16.
  if (quantization != nn::Quantization::kNone && dtype == DType::f32) dtype = DType::bf16;
  const Bucket bucket = largest_batch(data, evaluation_order(args_, data.size()), session_.token_rounding(),
                                      1, hooks_.masks.get());
  const Task& task = session_.model().task();
  return {.kind = ProgramKind::kEvaluate,
          .bucket = bucket,
          .targets = task.is_labelled(data.tensors),
          .scores = task.keeps_scores() || !task.is_labelled(data.tensors),
          .quantization = quantization,
          .dtype = dtype};
}

std::optional<Work> Evaluator::work_in_training() const {
  if (data_ == nullptr || data_->size() == 0 || args_.eval_strategy == "no" || base_) return {};
  return work(*data_, evaluation_quantization(args_), dtype(true));
}

nlohmann::json Evaluator::metrics_of(const TokenizedDataset& data, const Predictions& predictions,
                                     const std::string& prefix) const {
  nlohmann::json metrics;
  if (predictions.has_loss) metrics[prefix + "_loss"] = predictions.loss;
  // Without labels there is nothing to compare with; answers to questions are compared as texts.
  const bool known = predictions.has_loss || session_.model().task().scores_texts();
  if (hooks_.compute_metrics && known && !args_.prediction_loss_only)
    for (const auto& [key, value] : hooks_.compute_metrics(data, predictions))
      metrics[key.starts_with(prefix + "_") ? key : prefix + "_" + key] = metric_value(key, value);
  return metrics;
}

nlohmann::json Evaluator::measure(const TokenizedDataset& data, const std::string& prefix,
                                  Predictions* made) {
  const nn::Quantization quantization = evaluation_quantization(args_);
  nlohmann::json without;
  std::optional<Predictions> exact;
  if (quantization != nn::Quantization::kNone) {
    const std::vector<std::byte> masks = hooks_.masks ? hooks_.masks->state() : std::vector<std::byte>();
    exact = predict(data, nn::Quantization::kNone);
    if (hooks_.masks) hooks_.masks->restore(masks);  // both see the same ones
    without = metrics_of(data, *exact, prefix);
  }
  const auto started = std::chrono::steady_clock::now();
  Predictions predictions = predict(data);
  nlohmann::json metrics = metrics_of(data, predictions, prefix);
  if (exact && without.empty() && !session_.model().task().scores_texts())
    log_.say(LogLevel::kInfo, compare(predictions, *exact));
  for (const auto& [key, value] : without.items())
    metrics[fmt::format("{}_{}_change{}", prefix, name_of(quantization), key.substr(prefix.size()))] =
        metrics[key].get<double>() - value.get<double>();
  const int64_t batch = args_.per_device_eval_batch_size * session_.ranks();
  add_speed(metrics, prefix, started, static_cast<double>(data.size()),
            static_cast<double>(ceil_div(data.size(), batch)));
  if (made != nullptr) *made = std::move(predictions);
  return metrics;
}

nlohmann::json Evaluator::evaluate(const TokenizedDataset& data, const std::string& prefix) {
  const Seconds seconds(seconds_);
  // Within a training it is the training's memory.  Source: transformers' TrainerMemoryTracker.
  const bool alone = !log_.in_training();
  const MemoryMetrics memory(alone ? log_.memory_stage(prefix) : "", session_.backend());
  nlohmann::json metrics = measure(data, prefix);
  log_.write(nlohmann::ordered_json(metrics));
  if (alone) log_.add_memory(memory, metrics);
  log_.add_place(metrics);
  return metrics;
}

std::string Evaluator::compare(const Predictions& quantized, const Predictions& other) const {
  return fmt::format("{} compared with {}: {}", name_of(evaluation_quantization(args_)),
                     precision_name(args_), session_.model().task().agreement_text(quantized, other));
}

std::vector<BatchScores> Evaluator::scores(const TokenizedDataset& data, const Work& work) {
  ProcessGroup* group = session_.group();
  SamplerOptions options = evaluation_order(args_, data.size());
  options.even_batches = false;  // no sample is repeated: the gathered samples are the data set
  if (group != nullptr) options.rank = group->rank(), options.world_size = group->size();
  BatchStream stream(data, options, session_.token_rounding(), 0, 0, 1, batches_ahead(args_));
  if (hooks_.masks) stream.mask_with(*hooks_.masks);
  const int64_t batches = Sampler(options).batches_per_epoch();
  const bool base_kept = &data == data_ && base_ && work.quantization == training_quantization(args_) &&
                         *work.dtype == training_dtype(args_);
  session_.programs().expect_rows(ProgramCache::Rows::kEvaluated, data.longest());
  if (!base_kept) session_.programs().reserve({&work, 1});
  const auto tell = [&](int64_t done) {
    if (hooks_.on_evaluation_step) hooks_.on_evaluation_step(done, batches);
  };
  tell(0);
  std::vector<BatchScores> all;
  for (int64_t done = 1; const PackedBatch* batch = stream.next(); ++done) {
    const BaseRows base = base_kept ? base_->rows(*batch) : BaseRows{};
    BatchScores& scores = all.emplace_back();
    if (work.scores) {
      scores.loss = session_.evaluate(*batch, scores.logits, base, work.dtype, work.quantization);
    } else {
      const Session::Counted found = session_.count(*batch, base, work.dtype, work.quantization);
      scores.loss = found.loss, scores.correct = found.correct;
    }
    scores.rows = batch->sample_count();
    scores.units = session_.rows_of_scores(*batch);
    tell(done);
    if (!log_.in_training() && done < batches && log_.asked_to_stop())
      fail(ErrorCode::kInterrupted, "stopped after {} of {} batches of an evaluation", done, batches);
    if (group != nullptr && group->gone()) group->barrier().check();  // which names it
  }
  return all;
}

Predictions Evaluator::predict(const TokenizedDataset& data) {
  Predictions p = predict(data, evaluation_quantization(args_));
  warn_of_unpredicted(unpredicted(p), data.size());
  return p;
}

void Evaluator::warn_of_unpredicted(int64_t count, int64_t samples) const {
  if (count == 0) return;
  log_.say(
      LogLevel::kWarning,
      fmt::format("{} of {} samples have no prediction: their logits are not finite. {}", count, samples,
                  dtype(log_.in_training()) == DType::f16
                      ? "fp16 holds no value beyond 65504; bf16 and fp32 hold those up to 3e38"
                      : "Within the model values grow beyond 3e38, the most that bf16 and fp32 hold: take "
                        "other weights, such as those of an earlier checkpoint"));
}

Predictions Evaluator::predict(const TokenizedDataset& data, nn::Quantization quantization) {
  Predictions out;
  const Task& task = session_.model().task();
  out.begins = first_scores(data, session_.model().per_token());
  if (data.size() == 0) return out;
  if (&data != data_) check_dataset(data, task, "data");
  out.has_loss = task.is_labelled(data.tensors);
  double loss = 0, counted = 0;
  const bool filter = args_.logging_nan_inf_filter.value_or(false);
  auto mine = scores(data, work(data, quantization, dtype(log_.in_training())));
  for (const BatchScores& batch : gather_scores(session_.group(), std::move(mine))) {
    if (!filter || std::isfinite(batch.loss)) {
      loss += batch.loss * static_cast<double>(batch.rows);
      counted += static_cast<double>(batch.rows);
    }
    out.correct += batch.correct, out.counted += batch.units;
    if (!batch.logits.empty()) out.columns = static_cast<int64_t>(batch.logits.size()) / batch.units;
    out.logits.insert(out.logits.end(), batch.logits.begin(), batch.logits.end());
  }
  out.loss = loss / counted;  // NaN if the filter left nothing
  return out;
}

}  // namespace lathe
