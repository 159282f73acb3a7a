#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/report/similarity_findings.h"

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

/// How often a label was right, and in how many samples it was.
struct LabelCounts {
  int64_t samples = 0, predicted = 0, right = 0;
  int64_t trained = 0;  ///< samples of the training data

  bool operator==(const LabelCounts&) const = default;
};

/// Whether predictions are right as often as they say.
struct Calibration {
  double error = 0;  ///< expected calibration error: Σ share of a step · |confidence − share right|
  /// The step of confidence, a tenth wide, in which most predictions are.
  double from = 0, to = 0;
  int64_t samples = 0;
  double right = 0;  ///< the share of them
};

/// What an evaluation shows in addition to its metrics.  An empty member is not shown.
struct Findings {
  std::string data;                 ///< which data set, for people
  std::vector<std::string> labels;  ///< all; the first ones are those of `counts` and `confusion`
  std::vector<LabelCounts> counts = {};
  Confusion confusion = {};
  std::optional<Calibration> calibration = {};
  std::string score = {};           ///< what Example::score is: "loss", "F1"
  std::vector<Example> worst = {};  ///< worst first
  std::optional<SimilarityFindings> similarities = {};
};

/// Of the labels [0, shown).  labels, found: per sample, -1 for none.
Confusion confusion_of(std::span<const int32_t> labels, std::span<const int32_t> found, size_t shown);

/// Source: Guo et al. 2017 (arXiv 1706.04599), with ten steps.  confidence: the probability of what was
/// predicted, per sample; right: whether that is the label.  Empty without samples.
std::optional<Calibration> calibration_of(std::span<const double> confidence, const std::vector<bool>& right);

/// The samples with the highest `badness`, worst first and at most `most`; `example` makes one of a sample's
/// number.
std::vector<Example> worst_examples(std::span<const double> badness, size_t most,
                                    const std::function<Example(size_t)>& example);

/// −log of the softmax of `logits` at `label`: a sample's loss.
double cross_entropy_of(std::span<const float> logits, size_t label);

}  // namespace lathe
