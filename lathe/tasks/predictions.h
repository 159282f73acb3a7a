#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lathe {

/// Scores of a whole data set, in its order.
struct Predictions {
  std::vector<float> logits;  ///< [rows, columns], or [tokens, columns] where each token has scores
  int64_t columns = 0;
  /// Of samples with scores of several rows or tokens: the first of each, [samples+1].
  std::vector<int64_t> begins;
  double loss = 0;  ///< example-weighted mean, without losses that the filter drops; 0 without
                    ///< targets
  bool has_loss = false;
  /// Of what has scores: how many are right, where the task counts them instead of keeping scores.
  int64_t correct = 0, counted = 0;
};

/// The class with the highest score, per row: sample, or token.
std::vector<int32_t> best_classes(const Predictions& predictions);

/// Of samples whose rows have a score each: the row with the highest, from 0 within the sample.
std::vector<int32_t> best_rows(const Predictions& predictions);

/// Whether all logits of a row are finite.  Otherwise they mean nothing.
bool is_predicted(const Predictions& predictions, size_t row);
/// The number of samples with a logit that is not finite.
int64_t unpredicted(const Predictions& predictions);

/// The share of rows for which both predict the same class; of several labels, each of them.  A row that one
/// of them cannot predict counts as different.  1 for no rows.
double agreement(const Predictions& a, const Predictions& b);
double agreement_of_labels(const Predictions& a, const Predictions& b);
/// The same for samples of which one row is predicted.
double agreement_of_rows(const Predictions& a, const Predictions& b);
/// The sum of the distances of a sample's values, on average; NaN with a sample that one of them cannot
/// predict.
double mean_distance(const Predictions& a, const Predictions& b);

}  // namespace lathe
