#include "lathe/data/own/named_metric.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/data/metrics.h"

namespace lathe {
namespace {

[[noreturn]] void fail_unknown(std::string_view name) {
  fail(ErrorCode::kUsage, "--metric_name: found {}, which does not fit these labels", name);
}

double mean_absolute_error(std::span<const float> predictions, std::span<const float> labels) {
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) sum += std::abs(double{predictions[i]} - double{labels[i]});
  return sum / static_cast<double>(labels.size());
}

/// The share of those that are 1 in `of` that are 1 in `also`, too; 0 where there are none.
double share_of_ones(std::span<const int32_t> of, std::span<const int32_t> also) {
  double both = 0, all = 0;
  for (size_t i = 0; i < of.size(); ++i) {
    all += of[i] == 1;
    both += of[i] == 1 && also[i] == 1;
  }
  return all == 0 ? 0 : both / all;
}

}  // namespace

std::vector<std::string> metric_choices(const LabelSet& labels) {
  switch (labels.kind) {
    case LabelKind::kRegression:
      return {"mse", "mae", "pearsonr", "spearmanr"};
    case LabelKind::kMultiLabel:
      return {"f1", "precision", "recall"};
    case LabelKind::kClasses:
      break;
  }
  if (labels.names.size() != 2) return {"accuracy", "matthews_correlation"};
  return {"accuracy", "matthews_correlation", "f1", "precision", "recall"};
}

double named_metric(std::string_view name, std::span<const int32_t> predictions,
                    std::span<const int32_t> labels) {
  if (name == "accuracy") return accuracy(predictions, labels);
  if (name == "matthews_correlation") return matthews_correlation(predictions, labels);
  if (name == "f1") return binary_f1(predictions, labels);
  if (name == "precision") return share_of_ones(predictions, labels);
  if (name == "recall") return share_of_ones(labels, predictions);
  fail_unknown(name);
}

double named_metric(std::string_view name, std::span<const float> predictions,
                    std::span<const float> labels) {
  if (name == "mse") return mean_squared_error(predictions, labels);
  if (name == "mae") return mean_absolute_error(predictions, labels);
  if (name == "pearsonr") return pearson(predictions, labels);
  if (name == "spearmanr") return spearman(predictions, labels);
  fail_unknown(name);
}

}  // namespace lathe
