#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/dataset.h"

namespace lathe {

/// The metrics of the `evaluate` package that fit such labels, by their names there; the first is what
/// run_classification takes if none is named.  Classes: accuracy, matthews_correlation and, of two classes,
/// f1, precision, recall of the second one.  Several labels: those three over all labels of all rows.
/// Regression: mse, mae, pearsonr, spearmanr.
std::vector<std::string> metric_choices(const LabelSet& labels);

/// Of classes; both sides as long, not empty.  Errors: kUsage for a name that metric_choices lacks.
double named_metric(std::string_view name, std::span<const int32_t> predictions,
                    std::span<const int32_t> labels);
/// Of numbers.
double named_metric(std::string_view name, std::span<const float> predictions, std::span<const float> labels);

}  // namespace lathe
