#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lathe/tasks/task.h"

namespace lathe {

/// What the vectors of a sample's texts are trained for.  Names and defaults of sentence-transformers 6.
struct SimilarityLoss {
  enum class Kind {
    kMultipleNegatives,  ///< of all texts of a batch, column 1 is the nearest to column 0
    kCosineSimilarity,   ///< cosines of two texts are the targets "labels"
    kCoSent,             ///< cosines of two texts have the order of "ranks"
    kTriplet,            ///< column 1 is nearer to column 0 than column 2, by a margin
    kContrastive,        ///< pairs with label 1 are near, with 0 farther apart than a margin
  };
  enum class Distance { kCosine, kEuclidean, kManhattan };

  Kind kind = Kind::kMultipleNegatives;
  double scale = 20;                      ///< of cosines: kMultipleNegatives, kCoSent
  bool symmetric = false;                 ///< kMultipleNegatives: column 0 is the nearest to column 1, too
  bool gathers = false;                   ///< kMultipleNegatives: the texts of all ranks, too
  int64_t cached = 0;                     ///< samples that are in memory at a time; 0: all of a batch
  double margin = 0.5;                    ///< kTriplet, kContrastive
  Distance distance = Distance::kCosine;  ///< the same
  bool mean = true;                       ///< kContrastive; false: the sum over the samples

  /// MatryoshkaLoss: the loss of the first so many numbers of the vectors, times the weight, summed.
  struct Width {
    int64_t width = 0;
    double weight = 1;
  };
  std::vector<Width> widths = {};  ///< empty: only that of whole vectors
};

/// The number of a sample's texts.
inline constexpr const char* kTextsOfSample = "texts";

/// The names of the classes: MultipleNegativesRankingLoss …
const char* name_of(SimilarityLoss::Kind kind);

/// Vectors of texts that are trained by a loss over a sample's texts.  Targets: "labels" [S] f32 of
/// kCosineSimilarity and kContrastive; "ranks" [S] i32 of kCoSent; kTextsOfSample [S] i32 of the others,
/// which data that the loss is not for lack.
TaskPtr text_similarity(const SimilarityLoss& loss);

}  // namespace lathe
