#include "lathe/data/retrieval/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr std::array<const char*, 4> kSimilarityNames = {"cosine", "dot", "euclidean", "manhattan"};
constexpr double kSmallestNorm = 1e-12;  // of torch.nn.functional.normalize

// Sums in four lanes, which a compiler turns into vector instructions.
template <typename Term>
double lane_sum(std::span<const float> a, std::span<const float> b, const Term& term) {
  std::array<double, 4> lanes{};
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4)
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane] += term(double{a[i + lane]}, double{b[i + lane]});
  double sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  for (; i < a.size(); ++i) sum += term(double{a[i]}, double{b[i]});
  return sum;
}

double dot_of(std::span<const float> a, std::span<const float> b) {
  return lane_sum(a, b, [](double x, double y) { return x * y; });
}

double norm_of(std::span<const float> a) { return std::max(std::sqrt(dot_of(a, a)), kSmallestNorm); }

double similarity_with_norms(Similarity similarity, std::span<const float> a, std::span<const float> b,
                             double norm_a, double norm_b) {
  switch (similarity) {
    case Similarity::kCosine:
      return dot_of(a, b) / (norm_a * norm_b);
    case Similarity::kDot:
      return dot_of(a, b);
    case Similarity::kEuclidean:
      return -std::sqrt(lane_sum(a, b, [](double x, double y) { return (x - y) * (x - y); }));
    case Similarity::kManhattan:
      return -lane_sum(a, b, [](double x, double y) { return std::abs(x - y); });
  }
  return 0;
}

}  // namespace

const char* name_of(Similarity similarity) { return kSimilarityNames[static_cast<size_t>(similarity)]; }

Similarity similarity_named(std::string_view name) {
  for (size_t i = 0; i < kSimilarityNames.size(); ++i)
    if (name == kSimilarityNames[i]) return static_cast<Similarity>(i);
  fail(ErrorCode::kUsage, "similarity '{}': expected cosine, dot, euclidean or manhattan", name);
}

double similarity_of(Similarity similarity, std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    fail(ErrorCode::kUsage, "similarity: found vectors of {} and {} numbers, expected as many", a.size(),
         b.size());
  const bool norms = similarity == Similarity::kCosine;
  return similarity_with_norms(similarity, a, b, norms ? norm_of(a) : 1, norms ? norm_of(b) : 1);
}

std::vector<double> pair_similarities(Similarity similarity, Vectors a, Vectors b) {
  if (a.width != b.width || a.rows() != b.rows())
    fail(ErrorCode::kUsage, "similarity: found {} vectors of {} numbers and {} of {}, expected as many",
         a.rows(), a.width, b.rows(), b.width);
  std::vector<double> out(static_cast<size_t>(a.rows()));
  for (int64_t i = 0; i < a.rows(); ++i)
    out[static_cast<size_t>(i)] = similarity_of(similarity, a.row(i), b.row(i));
  return out;
}

std::vector<int32_t> ranks_of_ids(std::span<const std::string> ids) {
  std::vector<int32_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
  });
  std::vector<int32_t> ranks(ids.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  return ranks;
}

std::vector<std::vector<int32_t>> rank_documents(Similarity similarity, Vectors queries, Vectors documents,
                                                 std::span<const int32_t> id_ranks, int64_t most) {
  const auto count = static_cast<size_t>(documents.rows());
  if (queries.width != documents.width || id_ranks.size() != count || most < 1)
    fail(ErrorCode::kUsage,
         "search: found queries of {} numbers, {} documents of {}, {} ids and {} wanted, expected one width, "
         "an "
         "id for each document and at least 1 wanted",
         queries.width, count, documents.width, id_ranks.size(), most);
  std::vector<double> norms(count, 1), scores(count);
  if (similarity == Similarity::kCosine)
    for (size_t d = 0; d < count; ++d) norms[d] = norm_of(documents.row(static_cast<int64_t>(d)));
  std::vector<int32_t> order(count);
  const auto is_nearer = [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return scores[i] != scores[j] ? scores[i] > scores[j] : id_ranks[i] < id_ranks[j];
  };
  std::vector<std::vector<int32_t>> out;
  for (int64_t q = 0; q < queries.rows(); ++q) {
    const double norm = similarity == Similarity::kCosine ? norm_of(queries.row(q)) : 1;
    for (size_t d = 0; d < count; ++d) {
      const double score = similarity_with_norms(similarity, queries.row(q),
                                                 documents.row(static_cast<int64_t>(d)), norm, norms[d]);
      scores[d] = std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;  // it has no order
    }
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + std::min(most, static_cast<int64_t>(count));
    std::partial_sort(order.begin(), end, order.end(), is_nearer);
    out.emplace_back(order.begin(), end);
  }
  return out;
}

}  // namespace lathe
