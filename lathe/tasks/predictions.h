#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// The share of samples for which both predict the same class; of several labels, each of them.  A sample
/// that one of them cannot predict counts as different.  1 for no samples.
double agreement(const Predictions& a, const Predictions& b);
double agreement_of_labels(const Predictions& a, const Predictions& b);
/// The sum of the distances of a sample's values, on average; NaN with a sample that one of them cannot
/// predict.
double mean_distance(const Predictions& a, const Predictions& b);

}  // namespace lathe
