#include "lathe/report/similarity_findings.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe {
namespace {

size_t bars_of(const std::string& html) {
  size_t count = 0;
  for (size_t at = html.find("<rect"); at != std::string::npos; at = html.find("<rect", at + 1)) ++count;
  return count;
}

TEST(SimilarityFindings, BarsAreOfLowAndOfHighTargets) {
  const std::string html =
      similarity_html({"dev.csv", {0.95F, 1.0F, -1.0F, 0.25F, std::nanf("")}, {1, 0.8, 0, 0.2, 1}});
  EXPECT_NE(html.find("2 pairs with a low target"), std::string::npos);
  EXPECT_NE(html.find("2 with a high one"), std::string::npos);
  EXPECT_NE(html.find("<title>0.9 to 1.0: 2</title>"), std::string::npos);
  EXPECT_NE(html.find("<title>-1.0 to -0.9: 1</title>"), std::string::npos);
  EXPECT_EQ(bars_of(html), 3U);
  EXPECT_EQ(html.find("Worst pairs"), std::string::npos);
}

TEST(SimilarityFindings, WorstPairsComeWithRowAndTarget) {
  const std::string html =
      similarity_html({"<dev>", {0.9F}, {0}, {{"dev.csv:7", "a < b", "c", 0.9F, "negative"}}});
  for (const char* part : {"Worst pairs", "7", "0.900", "negative", "a &lt; b", "&lt;dev&gt;"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(SimilarityFindings, WithoutPairsThereIsNothing) {
  EXPECT_EQ(similarity_html({"dev.csv", {}, {}}), "");
  EXPECT_EQ(similarity_html({"dev.csv", {std::nanf("")}, {1}}), "");
}

TextColumns two_rows(size_t columns) {
  TextColumns out;
  out.origin = "dev.csv";
  out.places = {"dev.csv:2", "dev.csv:3"};
  for (size_t i = 0; i < columns; ++i) {
    out.names.push_back(std::to_string(i));
    out.texts.push_back({"first " + std::to_string(i), "second " + std::to_string(i)});
  }
  return out;
}

TEST(SimilarityFindings, PositivesHaveTheNextRowsAsNegatives) {
  const std::vector<float> vectors = {1, 0, 1, 0, 0, 1, 1, 0};
  const SimilarityFindings found = similarity_findings(two_rows(2), {vectors, 2}, Similarity::kCosine);
  EXPECT_EQ(found.similarity, (std::vector<float>{1, 1, 0, 0}));
  EXPECT_EQ(found.target, (std::vector<double>{1, 0, 1, 0}));
  ASSERT_EQ(found.worst.size(), 4U);
  EXPECT_EQ(found.worst[0].place, "dev.csv:2");
  EXPECT_EQ(found.worst[0].second, "second 1");
  EXPECT_EQ(found.worst[0].target, "negative");
  EXPECT_EQ(found.worst[1].first, "second 0");
  EXPECT_EQ(found.worst[1].target, "positive");
}

TEST(SimilarityFindings, ScoresAreBroughtToOne) {
  TextColumns columns = two_rows(2);
  columns.target_name = "score";
  columns.targets = {5, 1};
  const std::vector<float> vectors = {1, 0, 1, 0, 0, 1, 1, 0};
  const SimilarityFindings found = similarity_findings(columns, {vectors, 2}, Similarity::kCosine);
  EXPECT_EQ(found.target, (std::vector<double>{1, 0.2}));
  EXPECT_EQ(found.worst[0].target, "1");
  EXPECT_EQ(
      similarity_findings(two_rows(3), {std::vector<float>(12, 1), 2}, Similarity::kCosine).target.size(),
      4U);
}

}  // namespace
}  // namespace lathe
