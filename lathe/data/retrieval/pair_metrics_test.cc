// Compares with stored results of sentence-transformers' evaluators; tools/make_embedding_metrics.py writes
// them.
#include "lathe/data/retrieval/pair_metrics.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"
#include "lathe/data/retrieval/metrics_golden_testing.h"

namespace lathe {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Ids = std::vector<int32_t>;

TEST(PairMetrics, EmbeddingSimilarity) {
  for (const auto& c : stored_metrics("similarity")) {
    const Floats a = c["a"], b = c["b"];
    const int64_t width = c["width"];
    expect_metrics(similarity_metrics({a, width}, {b, width}, c["labels"].get<Doubles>(),
                                      similarities_of(c["similarities"])),
                   c["metrics"], c.dump());
  }
}

TEST(PairMetrics, Triplets) {
  for (const auto& c : stored_metrics("triplet")) {
    const Floats a = c["a"], p = c["p"], n = c["n"];
    const int64_t width = c["width"];
    expect_metrics(triplet_metrics({a, width}, {p, width}, {n, width}, similarities_of(c["similarities"]),
                                   c["margin"].get<double>()),
                   c["metrics"], c.dump());
  }
}

TEST(PairMetrics, BinaryClassification) {
  for (const auto& c : stored_metrics("binary")) {
    std::vector<SimilarityScores> scores;
    const auto similarities = similarities_of(c["similarities"]);
    for (size_t i = 0; i < similarities.size(); ++i)
      scores.push_back({similarities[i], c["scores"][i].get<Floats>()});
    expect_metrics(binary_metrics(scores, c["labels"].get<Ids>()), c["metrics"], c.dump());
  }
}

TEST(PairMetrics, ScoresOfPairs) {
  for (const auto& c : stored_metrics("pair_scores"))
    expect_metrics(pair_score_metrics(c["scores"].get<Floats>(), c["labels"].get<Ids>()), c["metrics"],
                   c.dump());
}

TEST(PairMetrics, ClassesOfPairs) {
  for (const auto& c : stored_metrics("pair_classes"))
    expect_metrics(pair_class_metrics(c["scores"].get<Floats>(), c["labels"].get<Ids>()), c["metrics"],
                   c.dump());
}

TEST(PairMetrics, CorrelationOfPairs) {
  for (const auto& c : stored_metrics("pair_correlation"))
    expect_metrics(pair_correlation_metrics(c["scores"].get<Floats>(), c["labels"].get<Doubles>()),
                   c["metrics"], c.dump());
}

TEST(PairMetrics, BinaryOfVectorsIsThatOfTheirScores) {
  const Floats a{1, 0, 0, 1}, b{1, 0, 1, 0};
  const std::vector<Similarity> cosine{Similarity::kCosine};
  const std::vector<SimilarityScores> scores{{Similarity::kCosine, {1, 0}}};
  EXPECT_EQ(binary_metrics({a, 2}, {b, 2}, Ids{1, 0}, cosine), binary_metrics(scores, Ids{1, 0}));
}

TEST(PairMetrics, Names) {
  EXPECT_EQ(with_name({{"cosine_ap", 1}}, "dev"), (MetricValues{{"dev_cosine_ap", 1}}));
  EXPECT_EQ(with_name({{"cosine_ap", 1}}, ""), (MetricValues{{"cosine_ap", 1}}));
}

TEST(PairMetrics, RefusesWhatHasNoMetric) {
  expect_error([] { pearson_of_scores(Doubles{1}, Doubles{1}); }, ErrorCode::kUsage,
               {"pearson: found 1 scores and 1 labels", "at least 2"});
  expect_error(
      [] {
        spearman_of_scores(Doubles{1, 2}, Doubles{1});
      },
      ErrorCode::kUsage, {"spearman: found 2 scores and 1 labels"});
  expect_error(
      [] {
        pair_score_metrics(Floats{1, 2}, Ids{0, 2});
      },
      ErrorCode::kUsage, {"label 2 of pair 1: expected 0 or 1"});
  expect_error(
      [] {
        pair_class_metrics(Floats{1, 2, 3}, Ids{0, 2});
      },
      ErrorCode::kUsage, {"found 3 scores of 2 pairs"});
  expect_error([] { average_precision({}, {}); }, ErrorCode::kUsage, {"average precision"});
}

}  // namespace
}  // namespace lathe
