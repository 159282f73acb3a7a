#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/metrics.h"
#include "lathe/data/retrieval/similarity.h"

namespace lathe {

/// What evaluators of sentence-transformers 6 report of pairs and triplets, with their keys in their order.
/// All take as many of one as of the other, at least one.  Errors: kUsage else, and where said.

/// scipy's pearsonr and spearmanr in double precision; NaN where a side is constant or has a NaN.  Errors:
/// kUsage for fewer than two.
double pearson_of_scores(std::span<const double> a, std::span<const double> b);
double spearman_of_scores(std::span<const double> a, std::span<const double> b);

/// EmbeddingSimilarityEvaluator: pearson_<similarity>, spearman_<similarity> of each, and of several also
/// pearson_max and spearman_max.  labels: what the pairs' similarity should be, on any scale.
MetricValues similarity_metrics(Vectors a, Vectors b, std::span<const double> labels,
                                std::span<const Similarity> similarities);

/// TripletEvaluator: <similarity>_accuracy, the part of the anchors that are nearer to their positive than to
/// their negative by more than the margin; of several also max_accuracy.  Rounded to float, as there.
MetricValues triplet_metrics(Vectors anchors, Vectors positives, Vectors negatives,
                             std::span<const Similarity> similarities, double margin = 0);

/// Scores of pairs by one similarity, of which more is nearer.
struct SimilarityScores {
  Similarity similarity = Similarity::kCosine;
  std::vector<float> scores;
};

/// BinaryClassificationEvaluator: of each similarity accuracy, accuracy_threshold, f1, f1_threshold,
/// precision, recall, ap and mcc; of several also their max_*.  A threshold of euclidean and manhattan is a
/// distance.  labels: 1 of pairs that belong together, else 0.  Errors: kUsage for another label.
MetricValues binary_metrics(std::span<const SimilarityScores> scores, std::span<const int32_t> labels);
/// The same of vectors.
MetricValues binary_metrics(Vectors a, Vectors b, std::span<const int32_t> labels,
                            std::span<const Similarity> similarities);

/// CrossEncoderClassificationEvaluator of one score a pair: accuracy, accuracy_threshold, f1, f1_threshold,
/// precision, recall, average_precision.  Errors: kUsage for a label other than 0 and 1.
MetricValues pair_score_metrics(std::span<const float> scores, std::span<const int32_t> labels);
/// The same of several classes: f1_macro, f1_micro, f1_weighted.  logits: [pairs, classes].
MetricValues pair_class_metrics(std::span<const float> logits, std::span<const int32_t> labels);
/// CrossEncoderCorrelationEvaluator: pearson, spearman.
MetricValues pair_correlation_metrics(std::span<const float> scores, std::span<const double> labels);

/// scikit-learn's average_precision_score; 0 where nothing is relevant.  relevant: 1 or 0.
double average_precision(std::span<const int32_t> relevant, std::span<const float> scores);

/// Keys with "<name>_" in front of each, as an evaluator with a name has them; an empty name changes nothing.
MetricValues with_name(MetricValues values, std::string_view name);

}  // namespace lathe
