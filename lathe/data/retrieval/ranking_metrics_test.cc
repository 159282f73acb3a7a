// Compares with stored results of sentence-transformers' evaluators; tools/make_embedding_metrics.py writes
// them.
#include "lathe/data/retrieval/ranking_metrics.h"

#include <gtest/gtest.h>

#include "lathe/data/retrieval/expect_error_testing.h"
#include "lathe/data/retrieval/metrics_golden_testing.h"

namespace lathe {
namespace {

using Ranks = std::vector<std::vector<int32_t>>;

RetrievalCutoffs other_cutoffs() {
  RetrievalCutoffs out;
  out.accuracy = {2}, out.precision_recall = {4, 2}, out.ndcg = {1, 5}, out.mrr = {3, 20}, out.map = {3, 50};
  return out;
}

TEST(RankingMetrics, InformationRetrieval) {
  for (const auto& c : stored_metrics("retrieval")) {
    const std::vector<float> q = c["q"], d = c["d"];
    const int64_t width = c["width"];
    const auto ids = c["ids"].get<std::vector<std::string>>();
    const RetrievalCutoffs cutoffs = c["default"] ? RetrievalCutoffs() : other_cutoffs();
    const auto found = rank_documents(similarity_named(c["similarity"].get<std::string>()), {q, width},
                                      {d, width}, ranks_of_ids(ids), cutoffs.most());
    expect_metrics(retrieval_metrics(found, c["relevant"].get<Ranks>(), cutoffs), c["metrics"], c.dump());
  }
}

TEST(RankingMetrics, Reranking) {
  for (const auto& c : stored_metrics("reranking")) {
    std::vector<RankedList> lists, before;
    for (const auto& list : c["lists"]) {
      lists.push_back({list["relevant"], list["scores"]});
      if (c["before"])
        before.push_back(list_before_reranking(list["found"].get<std::vector<int32_t>>(),
                                               list["positives"].get<int64_t>()));
    }
    MetricValues values = reranking_metrics(lists, c["k"].get<int64_t>());
    if (c["before"])
      for (const auto& [key, value] : reranking_metrics(before, c["k"].get<int64_t>()))
        values.emplace_back("base_" + key, value);
    expect_metrics(values, c["metrics"], c.dump());
  }
}

TEST(RankingMetrics, MostIsTheGreatestCutoff) {
  EXPECT_EQ(RetrievalCutoffs().most(), 100);
  EXPECT_EQ(other_cutoffs().most(), 50);
}

TEST(RankingMetrics, EqualScoresTheLaterFirst) {
  const std::vector<RankedList> lists{{{1, 0, 0}, {0.5f, 0.5f, 0.25f}}};
  EXPECT_EQ(reranking_metrics(lists)[1], (std::pair<std::string, double>("mrr@10", 0.5)));
}

TEST(RankingMetrics, RefusesWhatHasNoOrder) {
  expect_error([] { retrieval_metrics(Ranks{{1}}, Ranks{}); }, ErrorCode::kUsage,
               {"1 rankings of 0 queries"});
  expect_error(
      [] {
        retrieval_metrics(Ranks{{1}, {1}}, Ranks{{1}, {}});
      },
      ErrorCode::kUsage, {"query 1 has no relevant document", "leave it out"});
  expect_error([] { reranking_metrics({}); }, ErrorCode::kUsage, {"no query"});
  const std::vector<RankedList> one{{{1}, {0.5f}}}, odd{{{1, 0}, {0.5f}}};
  expect_error([&] { reranking_metrics(one); }, ErrorCode::kUsage, {"query 0 has one document", "negative"});
  expect_error([&] { reranking_metrics(odd); }, ErrorCode::kUsage, {"2 documents and 1 scores"});
}

}  // namespace
}  // namespace lathe
