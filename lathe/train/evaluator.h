#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine/base_cache.h"
#include "lathe/engine/ranks.h"
#include "lathe/engine/session.h"
#include "lathe/tasks/predictions.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/run_log.h"

namespace lathe {

/// Scores data sets, over all ranks.
class Evaluator {
 public:
  /// All must outlive it. data: the evaluation data of a training, already checked; null: none.
  Evaluator(Session& session, const TrainingArguments& args, const TokenizedDataset* data,
            const TrainerHooks& hooks, RunLog& log);

  /// Trainer::evaluate; writes its line to the log.  Without arguments it evaluates the data given to the
  /// constructor.
  nlohmann::json evaluate(const TokenizedDataset& data, const std::string& prefix);
  nlohmann::json evaluate() { return evaluate(*data_, "eval"); }
  /// Loss, scores and speed, with `prefix`, and in `made` the predictions that they are of.
  nlohmann::json measure(const TokenizedDataset& data, const std::string& prefix,
                         Predictions* made = nullptr);
  /// Trainer::predict.
  Predictions predict(const TokenizedDataset& data);
  Predictions predict(const TokenizedDataset& data, nn::Quantization quantization);
  /// Trainer::warn_of_unpredicted.
  void warn_of_unpredicted(int64_t count, int64_t samples) const;
  /// How much predictions with and without quantization agree, as a sentence.
  std::string compare(const Predictions& quantized, const Predictions& other) const;

  /// The output of a frozen base for the data given to the constructor; null: the base runs every time.
  void keep_base(std::unique_ptr<BaseCache> base) { base_ = std::move(base); }
  /// The largest run of the evaluations in a training; none if there are none, or if the base's output is
  /// kept.
  std::optional<Work> work_in_training() const;
  /// Seconds spent in `evaluate`.
  double seconds() const { return seconds_; }

 private:
  /// The dtype of activations, in a training or outside.
  DType dtype(bool in_training) const;
  Work work(const TokenizedDataset& data, nn::Quantization quantization, DType dtype) const;
  /// The scores of this rank's batches.
  std::vector<BatchScores> scores(const TokenizedDataset& data, const Work& work);
  /// The part of `measure` that comes from the predictions.
  nlohmann::json metrics_of(const TokenizedDataset& data, const Predictions& predictions,
                            const std::string& prefix) const;

  Session& session_;
  const TrainingArguments& args_;
  const TokenizedDataset* data_;
  const TrainerHooks& hooks_;
  RunLog& log_;
  std::unique_ptr<BaseCache> base_;
  double seconds_ = 0;
};

}  // namespace lathe
