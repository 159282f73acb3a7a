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

/// How often samples with a label were given each label.  Only the first labels: a matrix of very many would
/// fill the memory.
struct Confusion {
  std::vector<std::vector<int64_t>> counts;  ///< [label wanted][label found]
  std::vector<int64_t> samples;              ///< [label wanted], whatever was found

  bool operator==(const Confusion&) const = default;
};

/// What an evaluation shows in addition to its metrics.  An empty member is not shown.
struct Findings {
  std::string data;                 ///< which data set, for people
  std::vector<std::string> labels;  ///< all; the first ones are those of `confusion`
  Confusion confusion;
  std::string score;           ///< what Example::score is: "loss", "F1"
  std::vector<Example> worst;  ///< worst first

  bool empty() const { return confusion.counts.empty() && worst.empty(); }
};

/// Of the labels [0, shown).  labels, found: per sample, -1 for none.
Confusion confusion_of(std::span<const int32_t> labels, std::span<const int32_t> found, size_t shown);

/// The samples with the highest `badness`, worst first and at most `most`; `example` makes one of a sample's
/// number.
std::vector<Example> worst_examples(std::span<const double> badness, size_t most,
                                    const std::function<Example(size_t)>& example);

/// −log of the softmax of `logits` at `label`: a sample's loss.
double cross_entropy_of(std::span<const float> logits, size_t label);

}  // namespace lathe
