#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// How near two vectors are; more is nearer.  kEuclidean and kManhattan: the distance with a minus.
enum class Similarity { kCosine, kDot, kEuclidean, kManhattan };

/// sentence-transformers' names: cosine, dot, euclidean, manhattan.
const char* name_of(Similarity similarity);
/// Errors: kUsage for another name, listing these.
Similarity similarity_named(std::string_view name);
/// Whether what the evaluators of pairs call the score is the distance, of which less is nearer.
inline bool is_distance(Similarity similarity) {
  return similarity == Similarity::kEuclidean || similarity == Similarity::kManhattan;
}

/// Vectors of one width, one after the other.  Not owned.
struct Vectors {
  std::span<const float> values;  ///< [rows, width]
  int64_t width = 0;

  int64_t rows() const { return width == 0 ? 0 : static_cast<int64_t>(values.size()) / width; }
  std::span<const float> row(int64_t i) const {
    return values.subspan(static_cast<size_t>(i * width), static_cast<size_t>(width));
  }
};

/// The similarity of two vectors of one length, in double precision.  Cosine of a vector of zeros is 0.
double similarity_of(Similarity similarity, std::span<const float> a, std::span<const float> b);

/// The similarity of each row of `a` with that of `b`.  Errors: kUsage where these differ in number or width.
std::vector<double> pair_similarities(Similarity similarity, Vectors a, Vectors b);

/// The place of each id among all in the order of their bytes.
std::vector<int32_t> ranks_of_ids(std::span<const std::string> ids);

/// For each query the rows of at most `most` documents, the nearest first; of equal ones that with the lower
/// rank.  id_ranks: [documents], ranks_of_ids of the documents' ids.  Errors: kUsage where sizes do not fit.
std::vector<std::vector<int32_t>> rank_documents(Similarity similarity, Vectors queries, Vectors documents,
                                                 std::span<const int32_t> id_ranks, int64_t most);

}  // namespace lathe
