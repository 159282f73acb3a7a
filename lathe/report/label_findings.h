#pragma once
#include <functional>
#include <string>

#include "lathe/data/dataset.h"
#include "lathe/data/tokenized.h"
#include "lathe/report/findings.h"
#include "lathe/tasks/predictions.h"

namespace lathe {

/// What a model says of a sample, as people read it: a label, labels with commas, a number; "nan" where it
/// says nothing.  row: of `p`.
std::string prediction_text(const LabelSet& set, const Predictions& p, size_t row);

/// Counts of labels, confusion matrix, calibration and worst examples of a data set with labels; nothing
/// where a sample has none.  set: what the labels mean.  origin: the data set, for people.  text: of a
/// sample. train: what the model learns from; null: not known.
Findings label_findings(const LabelSet& set, const std::string& origin, const TokenizedDataset& data,
                        const Predictions& p, const std::function<std::string(size_t)>& text,
                        const TokenizedDataset* train);

}  // namespace lathe
