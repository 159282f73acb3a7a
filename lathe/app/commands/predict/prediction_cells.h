#pragma once
#include <string>
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/table_writer.h"

namespace lathe {

/// Softmax over classes; a sigmoid each for several labels; the value itself for regression.  NaN, all of
/// them, where a logit is not finite.
std::vector<double> probabilities(LabelKind kind, const float* logits, size_t count);

/// The indices of the `count` highest values, the highest first; of equal ones the first.
std::vector<size_t> highest(const std::vector<double>& values, size_t count);

/// The columns that a classifier adds to a table, and what it says of a row in each of them.
///   one label       label, score (the probability)
///   several labels  labels (those above one half), score_NAME for each
///   regression      score; of several values score_NAME for each
///   top_k > 0       label_1, score_1, label_2, score_2, …, as many as there are labels at most
/// probabilities: of one row.
std::vector<std::string> prediction_names(LabelKind kind, const std::vector<std::string>& labels, int top_k);
std::vector<Cell> prediction_cells(LabelKind kind, const std::vector<std::string>& labels, int top_k,
                                   const std::vector<double>& probabilities);

/// "label", "score" for top_k 0, else "label_1", "score_1", ….
std::vector<std::string> ranked_names(const std::string& what, size_t count, bool numbered);

}  // namespace lathe
