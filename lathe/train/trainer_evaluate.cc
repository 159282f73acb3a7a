// Evaluation and prediction.
#include <chrono>
#include <cmath>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/check_dataset.h"
#include "lathe/train/trainer.h"

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

/// The counts of SQuAD's scores are integers, as in Python.
nlohmann::json metric_value(const std::string& name, double value) {
  constexpr double kMost = int64_t{1} << 53;
  const bool is_count = (name == "total" || name.ends_with("_total")) && value >= 0 && value < kMost;
  if (is_count && std::trunc(value) == value) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

SamplerOptions Trainer::evaluation_options(int64_t samples) const {
  SamplerOptions options;
  options.size = samples;
  options.batch_size = static_cast<int>(args_.per_device_eval_batch_size);
  options.strategy = SamplingStrategy::kSequential;
  return options;
}

Work Trainer::evaluation_work(const TokenizedDataset& data, nn::Quantization quantization) const {
  // Besides so few bits nothing of an evaluation wants to be exact: what is f32 is bf16 then.
  const DType dtype = quantization != nn::Quantization::kNone && evaluation_dtype() == DType::f32
                          ? DType::bf16
                          : evaluation_dtype();
  const Bucket bucket = largest_batch(data, evaluation_options(data.size()), session_->token_rounding(), 1);
  return {ProgramKind::kEvaluate, bucket, true, false, quantization, dtype};
}

nlohmann::json Trainer::measure(const TokenizedDataset& data, const std::string& prefix) {
  const auto metrics_of = [&](const Predictions& predictions) {
    nlohmann::json metrics;
    if (predictions.has_loss) metrics[prefix + "_loss"] = predictions.loss;
    // Without labels there is nothing to compare with; answers to questions are compared as texts.
    const bool known = predictions.has_loss || model_.model->problem() == Problem::kQuestionAnswering;
    if (hooks_.compute_metrics && known && !args_.prediction_loss_only)
      for (const auto& [key, value] : hooks_.compute_metrics(data, predictions))
        metrics[key.starts_with(prefix + "_") ? key : prefix + "_" + key] = metric_value(key, value);
    return metrics;
  };
  const nn::Quantization quantization = evaluation_quantization(args_);
  nlohmann::json without;
  std::optional<Predictions> exact;
  if (quantization != nn::Quantization::kNone) {
    exact = predict(data, nn::Quantization::kNone);
    without = metrics_of(*exact);
  }
  const auto started = std::chrono::steady_clock::now();
  const Predictions predictions = predict(data);
  nlohmann::json metrics = metrics_of(predictions);
  if (exact && without.empty() && model_.model->problem() != Problem::kQuestionAnswering)
    say(LogLevel::kInfo, compare(predictions, *exact));
  for (const auto& [key, value] : without.items())
    metrics[fmt::format("{}_{}_change{}", prefix, name_of(quantization), key.substr(prefix.size()))] =
        metrics[key].get<double>() - value.get<double>();
  const int64_t batch = args_.per_device_eval_batch_size * session_->ranks();
  add_speed(metrics, prefix, started, static_cast<double>(data.size()),
            static_cast<double>(ceil_div(data.size(), batch)));
  return metrics;
}

nlohmann::json Trainer::evaluate(const TokenizedDataset& data, const std::string& prefix) {
  const Seconds seconds(evaluation_seconds_);
  // Within a training it is the training's memory.  Source: transformers' TrainerMemoryTracker.
  const MemoryMetrics memory(in_training_ ? "" : memory_stage(prefix), backend_);
  nlohmann::json metrics = measure(data, prefix);
  log(nlohmann::ordered_json(metrics));
  if (!in_training_) add_memory(memory, metrics);
  if (state_.global_step > 0) metrics["epoch"] = state_.epoch;
  if (counts_tokens()) metrics["num_input_tokens_seen"] = state_.num_input_tokens_seen;
  return metrics;
}

nlohmann::json Trainer::test(const TokenizedDataset& data) { return measure(data, "test"); }

/// *_full_eval concerns evaluation outside of training.  Source: transformers' Trainer.evaluation_loop.
DType Trainer::evaluation_dtype() const {
  if (in_training_) return training_dtype(args_);
  return args_.bf16_full_eval ? DType::bf16 : args_.fp16_full_eval ? DType::f16 : training_dtype(args_);
}

std::string Trainer::compare(const Predictions& quantized, const Predictions& other) const {
  const Problem problem = model_.model->problem();
  const double found = agreement(problem, quantized, other);
  const std::string beside =
      fmt::format("{} beside {}", name_of(evaluation_quantization(args_)), precision_name(args_));
  if (problem == Problem::kRegression)
    return fmt::format("{}: values differ by {:.4f} on average", beside, found);
  return fmt::format("{}: the same prediction for {:.2f} % of the samples", beside, 100 * found);
}

std::vector<BatchScores> Trainer::scores(const TokenizedDataset& data, const Work& work) {
  SamplerOptions options = evaluation_options(data.size());
  options.even_batches = false;  // nobody repeats a sample: what is gathered is the data set
  if (group() != nullptr) options.rank = group()->rank(), options.world_size = group()->size();
  BatchStream stream(data, options, session_->token_rounding(), 0, 0, 1, batches_ahead());
  const int64_t batches = Sampler(options).batches_per_epoch();
  const bool tokens = model_.model->per_token();
  const bool base_kept = &data == eval_ && eval_base_ && work.quantization == training_quantization(args_) &&
                         *work.dtype == training_dtype(args_);
  session_->programs().expect_rows(ProgramCache::Rows::kEvaluated, data.longest());
  if (!base_kept) session_->programs().reserve({&work, 1});
  const auto tell = [&](int64_t done) {
    if (hooks_.on_evaluation_step) hooks_.on_evaluation_step(done, batches);
  };
  tell(0);
  std::vector<BatchScores> all;
  for (int64_t done = 1; const PackedBatch* batch = stream.next(); ++done) {
    const BaseRows base = base_kept ? eval_base_->rows(*batch) : BaseRows{};
    BatchScores& scores = all.emplace_back();
    scores.loss = session_->evaluate(*batch, scores.logits, base, work.dtype, work.quantization);
    scores.rows = batch->rows;
    scores.units = tokens ? batch->real_tokens() : batch->rows;
    tell(done);
    if (!in_training_ && done < batches && hooks_.should_stop && hooks_.should_stop())
      fail(ErrorCode::kInterrupted, "stopped after {} of {} batches of an evaluation", done, batches);
    if (group() != nullptr && group()->gone()) group()->barrier().check();  // which says who it is
  }
  return all;
}

Predictions Trainer::predict(const TokenizedDataset& data) {
  Predictions p = predict(data, evaluation_quantization(args_));
  const int64_t count = unpredicted(p);
  if (count > 0)
    say(LogLevel::kWarning,
        fmt::format(
            "{} of {} samples have no prediction: their logits are not finite. {}", count, data.size(),
            evaluation_dtype() == DType::f16
                ? "fp16 holds no value beyond 65504; bf16 and fp32 hold those up to 3e38"
                : "Within the model values grow beyond 3e38, the most that bf16 and fp32 hold: take other "
                  "weights, such as those of an earlier checkpoint"));
  return p;
}

Predictions Trainer::predict(const TokenizedDataset& data, nn::Quantization quantization) {
  Predictions out;
  if (model_.model->problem() == Problem::kQuestionAnswering) out.begins = data.begins;
  if (data.size() == 0) return out;
  if (&data != eval_) check_data(data, "data");
  out.has_loss = is_labelled(data, model_.model->problem());
  double loss = 0, counted = 0;
  const bool filter = args_.logging_nan_inf_filter.value_or(false);
  for (const BatchScores& batch : gather_scores(group(), scores(data, evaluation_work(data, quantization)))) {
    if (!filter || std::isfinite(batch.loss)) {
      loss += batch.loss * static_cast<double>(batch.rows);
      counted += static_cast<double>(batch.rows);
    }
    out.columns = static_cast<int64_t>(batch.logits.size()) / batch.units;
    out.logits.insert(out.logits.end(), batch.logits.begin(), batch.logits.end());
  }
  out.loss = loss / counted;  // NaN where the filter left nothing
  return out;
}

}  // namespace lathe
