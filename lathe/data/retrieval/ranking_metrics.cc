#include "lathe/data/retrieval/ranking_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/core/error.h"
#include "lathe/data/retrieval/pair_metrics.h"

namespace lathe {
namespace {

double discount(size_t rank) { return 1 / std::log2(static_cast<double>(rank) + 2); }

double best_gain(int64_t relevant, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < std::min(relevant, k); ++i) sum += discount(static_cast<size_t>(i));
  return sum;
}

// What the first k documents of one query are worth.
struct FirstDocuments {
  double found = 0, gain = 0, reciprocal = 0, precisions = 0;
};

FirstDocuments look_at_first(std::span<const char> is_relevant, int64_t k) {
  FirstDocuments out;
  for (size_t rank = 0; rank < is_relevant.size() && rank < static_cast<size_t>(k); ++rank) {
    if (is_relevant[rank] == 0) continue;
    if (out.found == 0) out.reciprocal = 1 / static_cast<double>(rank + 1);
    out.found += 1;
    out.gain += discount(rank);
    out.precisions += out.found / static_cast<double>(rank + 1);
  }
  return out;
}

// [queries][ranks]: whether the document there should be found.
std::vector<std::vector<char>> relevance(std::span<const std::vector<int32_t>> rankings,
                                         std::span<const std::vector<int32_t>> relevant) {
  if (rankings.size() != relevant.size() || rankings.empty())
    fail(ErrorCode::kUsage, "retrieval: found {} rankings of {} queries, expected as many and at least one",
         rankings.size(), relevant.size());
  std::vector<std::vector<char>> out;
  for (size_t q = 0; q < rankings.size(); ++q) {
    if (relevant[q].empty())
      fail(ErrorCode::kUsage, "retrieval: query {} has no relevant document: leave it out", q);
    std::vector<int32_t> sorted = relevant[q];
    std::sort(sorted.begin(), sorted.end());
    out.emplace_back();
    for (const int32_t document : rankings[q])
      out.back().push_back(std::binary_search(sorted.begin(), sorted.end(), document) ? 1 : 0);
  }
  return out;
}

// sklearn.metrics.ndcg_score of one list: documents of equal scores share the mean of their gains.
double list_ndcg(const RankedList& list, std::span<const size_t> order, int64_t k) {
  const auto at = [&](size_t rank) { return rank < static_cast<size_t>(k) ? discount(rank) : 0; };
  double gain = 0;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    double relevant = 0, discounts = 0;
    for (end = begin; end < order.size() && list.scores[order[end]] == list.scores[order[begin]]; ++end)
      relevant += list.relevant[order[end]], discounts += at(end);
    gain += relevant / static_cast<double>(end - begin) * discounts;
  }
  return gain / best_gain(std::count(list.relevant.begin(), list.relevant.end(), 1), k);
}

struct ListMetrics {
  double precision = 0, reciprocal = 0, ndcg = 0;
};

ListMetrics list_metrics(const RankedList& list, size_t query, int64_t k) {
  const size_t count = list.relevant.size();
  if (list.scores.size() != count)
    fail(ErrorCode::kUsage, "reranking: query {} has {} documents and {} scores, expected as many", query,
         count, list.scores.size());
  if (std::count(list.relevant.begin(), list.relevant.end(), 1) == 0) return {};
  if (count < 2)
    fail(ErrorCode::kUsage,
         "reranking: query {} has one document, which has no order: give it a negative, or "
         "leave it out",
         query);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return list.scores[a] < list.scores[b]; });
  std::reverse(order.begin(), order.end());
  ListMetrics out{.precision = average_precision(list.relevant, list.scores),
                  .ndcg = list_ndcg(list, order, k)};
  for (size_t rank = 0; rank < count && rank < static_cast<size_t>(k) && out.reciprocal == 0; ++rank)
    if (list.relevant[order[rank]] == 1) out.reciprocal = 1 / static_cast<double>(rank + 1);
  return out;
}

}  // namespace

int64_t RetrievalCutoffs::most() const {
  int64_t out = 1;
  for (const auto* list : {&accuracy, &precision_recall, &ndcg, &mrr, &map})
    for (const int64_t k : *list) out = std::max(out, k);
  return out;
}

MetricValues retrieval_metrics(std::span<const std::vector<int32_t>> rankings,
                               std::span<const std::vector<int32_t>> relevant,
                               const RetrievalCutoffs& cutoffs) {
  const std::vector<std::vector<char>> found = relevance(rankings, relevant);
  MetricValues out;
  const auto add = [&](const char* name, const std::vector<int64_t>& ks, const auto& of_query) {
    for (const int64_t k : ks) {
      double sum = 0;
      for (size_t q = 0; q < found.size(); ++q)
        sum += of_query(look_at_first(found[q], k), static_cast<int64_t>(relevant[q].size()), k);
      out.emplace_back(fmt::format("{}@{}", name, k), sum / static_cast<double>(found.size()));
    }
  };
  add("accuracy", cutoffs.accuracy,
      [](const FirstDocuments& f, int64_t, int64_t) { return f.found > 0 ? 1.0 : 0.0; });
  add("precision", cutoffs.precision_recall,
      [](const FirstDocuments& f, int64_t, int64_t k) { return f.found / static_cast<double>(k); });
  add("recall", cutoffs.precision_recall,
      [](const FirstDocuments& f, int64_t all, int64_t) { return f.found / static_cast<double>(all); });
  add("ndcg", cutoffs.ndcg,
      [](const FirstDocuments& f, int64_t all, int64_t k) { return f.gain / best_gain(all, k); });
  add("mrr", cutoffs.mrr, [](const FirstDocuments& f, int64_t, int64_t) { return f.reciprocal; });
  add("map", cutoffs.map, [](const FirstDocuments& f, int64_t all, int64_t k) {
    return f.precisions / static_cast<double>(std::min(k, all));
  });
  return out;
}

MetricValues reranking_metrics(std::span<const RankedList> lists, int64_t k) {
  if (lists.empty()) fail(ErrorCode::kUsage, "reranking: found no query, expected at least one");
  ListMetrics sum;
  for (size_t q = 0; q < lists.size(); ++q) {
    const ListMetrics one = list_metrics(lists[q], q, k);
    sum.precision += one.precision, sum.reciprocal += one.reciprocal, sum.ndcg += one.ndcg;
  }
  const auto n = static_cast<double>(lists.size());
  return {{"map", sum.precision / n},
          {fmt::format("mrr@{}", k), sum.reciprocal / n},
          {fmt::format("ndcg@{}", k), sum.ndcg / n}};
}

RankedList list_before_reranking(std::span<const int32_t> relevant, int64_t positives) {
  RankedList out{.relevant = {relevant.begin(), relevant.end()}, .scores = {}};
  const int64_t found = std::count(relevant.begin(), relevant.end(), 1);
  if (found > 0)
    out.relevant.resize(relevant.size() + static_cast<size_t>(std::max<int64_t>(positives - found, 0)), 1);
  for (size_t i = out.relevant.size(); i > 0; --i) out.scores.push_back(static_cast<float>(i));
  return out;
}

}  // namespace lathe
