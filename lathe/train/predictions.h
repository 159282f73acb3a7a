#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/models/task_model.h"

namespace lathe {

/// Scores of a whole data set, in its order.
struct Predictions {
  std::vector<float> logits;  ///< [samples, columns], or [tokens, 2] for question answering
  int64_t columns = 0;
  std::vector<int64_t> begins;  ///< question answering: first token of each sample, [samples+1]
  double loss = 0;              ///< example-weighted mean, without losses that the filter drops; 0 without
                                ///< targets
  bool has_loss = false;
};

/// The class with the highest score, per sample.
std::vector<int32_t> best_classes(const Predictions& predictions);

/// Whether all logits of a row are finite.  Otherwise they mean nothing.
bool is_predicted(const Predictions& predictions, size_t row);
/// The number of samples with a logit that is not finite.
int64_t unpredicted(const Predictions& predictions);

/// The share of samples for which both predict the same: the class, or every label of several.  A sample that
/// one of them cannot predict counts as different.  For regression the mean distance of the values, NaN with
/// such a sample.
double agreement(Problem problem, const Predictions& a, const Predictions& b);

}  // namespace lathe
