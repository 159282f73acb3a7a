#include "lathe/data/retrieval/similarity.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"

namespace lathe {
namespace {

using Ranks = std::vector<std::vector<int32_t>>;

TEST(Similarity, OfTwoVectors) {
  const std::vector<float> a{1, 2, 2, 0, 0}, b{2, 0, 0, 0, 0}, zero(5, 0);
  EXPECT_DOUBLE_EQ(similarity_of(Similarity::kCosine, a, b), 2.0 / 6);
  EXPECT_DOUBLE_EQ(similarity_of(Similarity::kDot, a, b), 2);
  EXPECT_DOUBLE_EQ(similarity_of(Similarity::kEuclidean, a, b), -3);
  EXPECT_DOUBLE_EQ(similarity_of(Similarity::kManhattan, a, b), -5);
  EXPECT_EQ(similarity_of(Similarity::kCosine, a, zero), 0);
  EXPECT_EQ(similarity_of(Similarity::kCosine, zero, zero), 0);
}

TEST(Similarity, Names) {
  for (const char* name : {"cosine", "dot", "euclidean", "manhattan"})
    EXPECT_STREQ(name_of(similarity_named(name)), name);
  expect_error([] { similarity_named("cos"); }, ErrorCode::kUsage,
               {"similarity 'cos'", "expected cosine, dot, euclidean or manhattan"});
}

TEST(Similarity, RefusesVectorsThatDoNotFit) {
  const std::vector<float> six(6), four(4);
  expect_error(
      [&] {
        pair_similarities(Similarity::kDot, {six, 3}, {four, 2});
      },
      ErrorCode::kUsage, {"2 vectors of 3 numbers and 2 of 2"});
  expect_error([&] { similarity_of(Similarity::kDot, six, four); }, ErrorCode::kUsage, {"6 and 4"});
  expect_error(
      [&] {
        rank_documents(Similarity::kDot, {six, 3}, {four, 2}, {}, 1);
      },
      ErrorCode::kUsage, {"queries of 3 numbers", "2 documents of 2"});
}

TEST(Similarity, EqualDocumentsComeByTheirIds) {
  const std::vector<std::string> ids{"9", "10", "1", "2"};
  const auto ranks = ranks_of_ids(ids);
  EXPECT_EQ(ranks, (std::vector<int32_t>{3, 1, 0, 2}));
  const std::vector<float> query{1, 0}, documents{1, 1, 1, 1, 0, 1, 1, 1};
  EXPECT_EQ(rank_documents(Similarity::kCosine, {query, 2}, {documents, 2}, ranks, 3), (Ranks{{1, 3, 0}}));
  EXPECT_EQ(rank_documents(Similarity::kDot, {query, 2}, {documents, 2}, ranks, 9), (Ranks{{1, 3, 0, 2}}));
}

}  // namespace
}  // namespace lathe
