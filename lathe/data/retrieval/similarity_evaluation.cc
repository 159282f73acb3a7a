#include "lathe/data/retrieval/similarity_evaluation.h"

#include <algorithm>
#include <unordered_map>

#include "lathe/data/retrieval/pair_metrics.h"
#include "lathe/data/retrieval/ranking_metrics.h"

namespace lathe {
namespace {

/// The vectors of different texts, in the order in which these come first.
struct Different {
  std::vector<std::string> texts;
  std::vector<float> vectors;
  std::vector<int32_t> number;  ///< of each text
};

Different different(const std::vector<std::string>& texts, Vectors vectors) {
  Different out;
  std::unordered_map<std::string_view, int32_t> numbers;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto [at, is_new] = numbers.try_emplace(texts[i], static_cast<int32_t>(numbers.size()));
    out.number.push_back(at->second);
    if (!is_new) continue;
    out.texts.push_back(texts[i]);
    const auto vector = vectors.row(static_cast<int64_t>(i));
    out.vectors.insert(out.vectors.end(), vector.begin(), vector.end());
  }
  return out;
}

/// Each first text looks for its second ones among all of them.
MetricValues retrieval(const TextColumns& columns, Vectors a, Vectors b, Similarity similarity) {
  const Different queries = different(columns.texts[0], a), documents = different(columns.texts[1], b);
  std::vector<std::vector<int32_t>> relevant(queries.texts.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<int32_t>& of_query = relevant[static_cast<size_t>(queries.number[i])];
    if (std::find(of_query.begin(), of_query.end(), documents.number[i]) == of_query.end())
      of_query.push_back(documents.number[i]);
  }
  std::vector<int32_t> ranks(documents.texts.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int32_t>(i);
  const auto found = rank_documents(similarity, {queries.vectors, a.width}, {documents.vectors, a.width},
                                    ranks, RetrievalCutoffs{}.most());
  return with_name(retrieval_metrics(found, relevant), name_of(similarity));
}

}  // namespace

SimilarityEvaluation evaluation_for(const TextColumns& columns) {
  if (columns.target_name.empty())
    return columns.texts.size() > 2 ? SimilarityEvaluation::kTriplet : SimilarityEvaluation::kRetrieval;
  bool zero = false, one = false, other = false;
  for (const double target : columns.targets)
    zero |= target == 0, one |= target == 1, other |= target != 0 && target != 1;
  return zero && one && !other ? SimilarityEvaluation::kBinary : SimilarityEvaluation::kSimilarity;
}

std::vector<float> vectors_of_column(Vectors vectors, size_t column, size_t columns) {
  std::vector<float> out;
  out.reserve(vectors.values.size() / columns);
  for (int64_t row = static_cast<int64_t>(column); row < vectors.rows();
       row += static_cast<int64_t>(columns)) {
    const auto vector = vectors.row(row);
    out.insert(out.end(), vector.begin(), vector.end());
  }
  return out;
}

MetricValues evaluation_metrics(const TextColumns& columns, Vectors vectors, Similarity similarity) {
  const size_t count = columns.texts.size();
  const std::vector<float> first = vectors_of_column(vectors, 0, count);
  const std::vector<float> second = vectors_of_column(vectors, 1, count);
  const Vectors a{first, vectors.width}, b{second, vectors.width};
  const Similarity all[] = {similarity};
  switch (evaluation_for(columns)) {
    case SimilarityEvaluation::kSimilarity:
      return similarity_metrics(a, b, columns.targets, all);
    case SimilarityEvaluation::kBinary:
      return binary_metrics(a, b, std::vector<int32_t>(columns.targets.begin(), columns.targets.end()), all);
    case SimilarityEvaluation::kTriplet: {
      const std::vector<float> third = vectors_of_column(vectors, 2, count);
      return triplet_metrics(a, b, {third, vectors.width}, all);
    }
    case SimilarityEvaluation::kRetrieval:
      break;
  }
  return retrieval(columns, a, b, similarity);
}

std::vector<std::string> metric_names(const TextColumns& columns, Similarity similarity) {
  TextColumns two = columns;  // of the same kind, and as small as can be
  two.truncate(0);
  const bool has_target = !columns.target_name.empty();
  const bool binary = evaluation_for(columns) == SimilarityEvaluation::kBinary;
  for (std::vector<std::string>& column : two.texts) column = {"a", "b"};
  if (has_target) two.targets = {0, binary ? 1.0 : 0.5};
  const std::vector<float> vectors(two.texts.size() * 2, 1);
  std::vector<std::string> names;
  for (const auto& [name, value] : evaluation_metrics(two, {vectors, 1}, similarity)) names.push_back(name);
  return names;
}

}  // namespace lathe
