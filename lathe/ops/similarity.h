#pragma once
#include "lathe/program/op.h"

namespace lathe::op {

extern const OpDef row_scores, row_scores_bwd, cosent, pair_loss, times, first_columns, first_columns_bwd;

/// How two rows are compared: the attribute "kind" of row_scores.
enum class RowScore {
  kDot,          ///< Σ a · b
  kEuclidean,    ///< √Σ (a − b + shift)²
  kManhattan,    ///< Σ |a − b + shift|
  kOneMinusDot,  ///< 1 − Σ a · b: the cosine distance of vectors of length 1
};
/// Errors: kShape for another name.
RowScore row_score(const Attrs& attrs);

/// What is learnt from the scores of pairs: the attribute "kind" of pair_loss.
enum class PairLoss {
  kContrastive,  ///< other: labels y, scores d; the mean of (y d² + (1 − y) max(0, margin − d)²) / 2
  kTriplet,  ///< scores: distances to the positive, other: to the negative; mean of max(0, s − o + margin)
};
PairLoss pair_loss_kind(const Attrs& attrs);

}  // namespace lathe::op
