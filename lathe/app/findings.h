#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

/// A sample that a model got wrong, or nearly so.
struct Example {
  std::string text, wanted, found;
  double score = 0;
};

/// What an evaluation shows beside its metrics.  Empty members are not there.
struct Findings {
  std::string data;                             ///< which data set, for people
  std::vector<std::string> labels;              ///< of rows and columns of `confusion`
  std::vector<std::vector<int64_t>> confusion;  ///< [label wanted][label found] samples
  std::string score;                            ///< what Example::score is: "loss", "F1"
  std::vector<Example> worst;                   ///< worst first

  bool empty() const { return confusion.empty() && worst.empty(); }
};

/// How many samples with a label were given each one.  labels, found: per sample, outside [0, classes) for
/// none.
std::vector<std::vector<int64_t>> confusion_matrix(std::span<const int32_t> labels,
                                                   std::span<const int32_t> found, size_t classes);

/// The samples with the highest `badness`, worst first and at most `most`; `example` makes one of a sample's
/// number.
std::vector<Example> worst_examples(std::span<const double> badness, size_t most,
                                    const std::function<Example(size_t)>& example);

/// −log of the softmax of `logits` at `label`: a sample's loss.
double cross_entropy_of(std::span<const float> logits, size_t label);

}  // namespace lathe
