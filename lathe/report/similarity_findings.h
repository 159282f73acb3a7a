#pragma once
#include <string>
#include <vector>

#include "lathe/data/retrieval/similarity.h"
#include "lathe/data/retrieval/text_columns.h"

namespace lathe {

/// A pair of texts whose similarity is far from what its row says.
struct PairExample {
  std::string place;  ///< "file:line"
  std::string first, second;
  float similarity = 0;
  std::string target;  ///< a score, "positive" or "negative"
};

/// What an evaluation of embeddings shows in addition to its metrics.
struct SimilarityFindings {
  std::string origin;                   ///< which data set, for people
  std::vector<float> similarity;        ///< of each pair, cosines; one that is not finite is left out
  std::vector<double> target;           ///< of each pair: 1 positive, 0 negative, or a score in [0, 1]
  std::vector<PairExample> worst = {};  ///< worst first
};

/// Of data of these columns: pairs with scores or labels; of triplets, and of pairs that belong together, the
/// positives and as many negatives: the third column, or the positive of the next row.  vectors: [rows ·
/// columns, width], those of a row one after the other.  Scores are brought to 0 to 1.
SimilarityFindings similarity_findings(const TextColumns& columns, Vectors vectors, Similarity similarity);

/// A histogram of the similarities (pairs with a target of at least 0.5 next to the others) and the table of
/// the worst pairs, as HTML; empty without pairs.
std::string similarity_html(const SimilarityFindings& findings);

}  // namespace lathe
