#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/data/metrics.h"

namespace lathe {

/// At which ranks InformationRetrievalEvaluator looks, by default as it does.
struct RetrievalCutoffs {
  std::vector<int64_t> accuracy = {1, 3, 5, 10};
  std::vector<int64_t> precision_recall = {1, 3, 5, 10};
  std::vector<int64_t> ndcg = {10};
  std::vector<int64_t> mrr = {10};
  std::vector<int64_t> map = {100};

  /// The documents that must be found for each query.
  int64_t most() const;
};

/// InformationRetrievalEvaluator of sentence-transformers 6: accuracy@k, precision@k, recall@k, ndcg@k, mrr@k
/// and map@k, means over the queries.  rankings: of each query the documents found, the nearest first
/// (rank_documents).  relevant: of each query those that should be, at least one; a number below 0 is one
/// that no search can find.  Errors: kUsage where these differ in number, or a query has none.
MetricValues retrieval_metrics(std::span<const std::vector<int32_t>> rankings,
                               std::span<const std::vector<int32_t>> relevant,
                               const RetrievalCutoffs& cutoffs = {});

/// The documents of one query, with the scores of a reranker.
struct RankedList {
  std::vector<int32_t> relevant;  ///< 1 or 0
  std::vector<float> scores;
};

/// CrossEncoderRerankingEvaluator of sentence-transformers 6: map, mrr@k and ndcg@k, means over the queries.
/// A query without a relevant document counts 0.  Of equal scores the later document comes first for mrr@k,
/// as a stable argsort turned round gives it; ndcg@k takes the mean of all orders.  Errors: kUsage for no
/// query, for a list whose scores are not as many as its documents, and for a list of one document, which is
/// relevant: it has no order.
MetricValues reranking_metrics(std::span<const RankedList> lists, int64_t k = 10);

/// The list that a first search gave, in its order, as the evaluator scores it: relevant documents that it
/// did not find, of `positives` in all, come after its last.  relevant: of the documents in order.
RankedList list_before_reranking(std::span<const int32_t> relevant, int64_t positives);

}  // namespace lathe
