#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/glue_tasks.h"
#include "lathe/data/squad.h"

namespace lathe {

/// Keys without a prefix ("accuracy") and values, in HF's order.
using MetricValues = std::vector<std::pair<std::string, double>>;

/// All take as many predictions as labels, at least one.  Errors: kUsage if the lengths differ or are 0.
/// Source of the definitions: scikit-learn and scipy, as the `glue` metric of Hugging Face uses them.
double accuracy(std::span<const int32_t> predictions, std::span<const int32_t> labels);
/// F1 of class 1; 0 where nothing is predicted or labelled 1.
double binary_f1(std::span<const int32_t> predictions, std::span<const int32_t> labels);
/// For any number of classes; 0 where predictions or labels are all one class.
double matthews_correlation(std::span<const int32_t> predictions, std::span<const int32_t> labels);
/// NaN where either side is constant.
double pearson(std::span<const float> predictions, std::span<const float> labels);
double pearson_of(std::span<const double> x, std::span<const double> y);
/// Ties get the mean of their ranks; NaN where a value is NaN.
double spearman(std::span<const float> predictions, std::span<const float> labels);
double spearman_of(std::span<const double> x, std::span<const double> y);
double mean_squared_error(std::span<const float> predictions, std::span<const float> labels);

/// What run_glue reports for a task: its metrics and, if there are several, their mean as combined_score.
MetricValues glue_metrics(const GlueTask& task, std::span<const int32_t> predictions,
                          std::span<const int32_t> labels);
MetricValues glue_metrics(const GlueTask& task, std::span<const float> predictions,
                          std::span<const float> labels);

/// Lower case, no ASCII punctuation, no word a, an, the, single spaces: how SQuAD compares answers.
std::string normalize_answer(std::string_view text);

/// One answer per question; has_value false: the question was not answered and counts 0.
struct SquadPrediction {
  std::string text;
  bool has_value = true;
};

/// exact_match and f1 in 0 to 100, the best over the gold answers of each question.
/// predictions: one per example, in order.
MetricValues squad_v1_metrics(const SquadDataset& data, std::span<const SquadPrediction> predictions);
/// F1 of one answer, 0 to 1: the best over the gold answers; version_2: an empty answer may be right.
double squad_f1(const SquadExample& example, const SquadPrediction& prediction, bool version_2);
/// exact f1 total HasAns_* NoAns_* best_exact best_exact_thresh best_f1 best_f1_thresh, with
/// no_answer_probability 0 as run_qa gives it; the three keys of HasAns (NoAns) are missing if no question
/// has (lacks) an answer.
MetricValues squad_v2_metrics(const SquadDataset& data, std::span<const SquadPrediction> predictions);

}  // namespace lathe
