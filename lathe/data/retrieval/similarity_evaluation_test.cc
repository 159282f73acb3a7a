#include "lathe/data/retrieval/similarity_evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lathe/data/retrieval/text_samples.h"

namespace lathe {
namespace {

TextColumns columns_of(size_t columns, size_t rows, std::vector<double> targets = {}) {
  TextColumns out;
  for (size_t column = 0; column < columns; ++column) {
    out.names.push_back(std::string(1, static_cast<char>('a' + column)));
    out.texts.emplace_back();
    for (size_t row = 0; row < rows; ++row)
      out.texts.back().push_back(std::to_string(column) + " of " + std::to_string(row));
  }
  out.places.assign(rows, "x.csv:1");
  out.target_name = targets.empty() ? "" : "score";
  out.targets = std::move(targets);
  return out;
}

double value_of(const MetricValues& values, const std::string& name) {
  for (const auto& [key, value] : values)
    if (key == name) return value;
  ADD_FAILURE() << name;
  return -1;
}

TEST(SimilarityEvaluation, FollowsFromTheColumns) {
  EXPECT_EQ(evaluation_for(columns_of(2, 2)), SimilarityEvaluation::kRetrieval);
  EXPECT_EQ(evaluation_for(columns_of(3, 2)), SimilarityEvaluation::kTriplet);
  EXPECT_EQ(evaluation_for(columns_of(2, 2, {0, 1})), SimilarityEvaluation::kBinary);
  EXPECT_EQ(evaluation_for(columns_of(2, 2, {1, 1})), SimilarityEvaluation::kSimilarity);
  EXPECT_EQ(evaluation_for(columns_of(2, 2, {0, 0.5})), SimilarityEvaluation::kSimilarity);
}

TEST(SimilarityEvaluation, NamesAreThoseOfTheMetrics) {
  const std::vector<float> vectors = {1, 2, 3, 4, 5, 7, 2, 3};
  for (const TextColumns& columns :
       {columns_of(2, 2), columns_of(2, 2, {0, 1}), columns_of(2, 2, {0.1, 0.5})}) {
    const MetricValues found = evaluation_metrics(columns, {vectors, 2}, Similarity::kCosine);
    std::vector<std::string> names;
    for (const auto& [name, value] : found) names.push_back(name);
    EXPECT_EQ(names, metric_names(columns, Similarity::kCosine));
  }
}

TEST(SimilarityEvaluation, AFirstTextFindsAllItsSecondOnes) {
  TextColumns columns = columns_of(2, 3);
  columns.texts[0] = {"q", "q", "r"};
  // q is at 0 degrees, with its documents near; r points elsewhere, and its document lies nearer to q.
  const std::vector<float> vectors = {1, 0, 1, 0.1f, 1, 0, 1, 0.2f, 0, 1, 1, 0.05f};
  const MetricValues found = evaluation_metrics(columns, {vectors, 2}, Similarity::kCosine);
  EXPECT_EQ(value_of(found, "cosine_accuracy@1"), 0);
  EXPECT_EQ(value_of(found, "cosine_accuracy@3"), 1);
  EXPECT_NEAR(value_of(found, "cosine_mrr@10"), (1.0 / 2 + 1.0 / 3) / 2, 1e-12);
}

TEST(SimilarityEvaluation, OfTripletsThePositiveIsNearer) {
  const std::vector<float> vectors = {1, 0, 1, 0.1f, 0, 1, 1, 0, 0, 1, 1, 0.1f};
  const MetricValues found = evaluation_metrics(columns_of(3, 2), {vectors, 2}, Similarity::kCosine);
  EXPECT_EQ(value_of(found, "cosine_accuracy"), 0.5);
}

TEST(TextSamples, RanksOfValuesAreDense) {
  EXPECT_EQ(ranks_of_values({0.5, -1, 0.5, 3}), (std::vector<int32_t>{1, 0, 1, 2}));
  EXPECT_TRUE(ranks_of_values({}).empty());
}

TEST(TextColumns, RowsAreReorderedTogether) {
  TextColumns columns = columns_of(2, 3, {1, 2, 3});
  columns.places = {"a", "b", "c"};
  columns.reorder(std::vector<int32_t>{2, 0, 1});
  EXPECT_EQ(columns.texts[1], (std::vector<std::string>{"1 of 2", "1 of 0", "1 of 1"}));
  EXPECT_EQ(columns.targets, (std::vector<double>{3, 1, 2}));
  EXPECT_EQ(columns.places, (std::vector<std::string>{"c", "a", "b"}));
  columns.truncate(1);
  EXPECT_EQ(columns.size(), 1u);
  EXPECT_EQ(columns.targets.size(), 1u);
}

}  // namespace
}  // namespace lathe
