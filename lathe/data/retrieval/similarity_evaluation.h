#pragma once
#include <string>
#include <vector>

#include "lathe/data/metrics.h"
#include "lathe/data/retrieval/similarity.h"
#include "lathe/data/retrieval/text_columns.h"

namespace lathe {

/// Which evaluator of sentence-transformers is for data of these columns.
enum class SimilarityEvaluation {
  kSimilarity,  ///< pairs with scores: EmbeddingSimilarityEvaluator
  kBinary,      ///< pairs with labels 0 and 1, of both: BinaryClassificationEvaluator
  kTriplet,     ///< anchor, positive, negative: TripletEvaluator
  kRetrieval,   ///< pairs that belong together: InformationRetrievalEvaluator over all second texts
};
SimilarityEvaluation evaluation_for(const TextColumns& columns);

/// Its metrics.  vectors: [rows · columns, width], those of a row one after the other.
MetricValues evaluation_metrics(const TextColumns& columns, Vectors vectors, Similarity similarity);
/// The names of the metrics that it will have.
std::vector<std::string> metric_names(const TextColumns& columns, Similarity similarity);

/// The vectors of a column: every `columns`-th row.
std::vector<float> vectors_of_column(Vectors vectors, size_t column, size_t columns);

}  // namespace lathe
