#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/metrics.h"

namespace lathe {

/// Where a tag says its part (B, I, E, S): "B-PER" or "PER-B".
enum class TagStyle { kPrefix, kSuffix };

/// A run of words that the tags make one entity; both ends belong to it.
struct TagSpan {
  std::string type;  ///< "_" where the tag names none
  int64_t first = 0, last = 0;
  bool operator==(const TagSpan&) const = default;
};

/// The entities of the tags of one sentence, as `seqeval.metrics.sequence_labeling.get_entities` finds them:
/// broken sequences and tags without a part too.  Ends ascend.  Errors: kUsage for an empty tag.
std::vector<TagSpan> tag_spans(std::span<const std::string> tags, TagStyle style = TagStyle::kPrefix);

/// Of one type, or of all.  0 where there is nothing to divide by.
struct SpanScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t number = 0;  ///< entities of the references
  bool operator==(const SpanScores&) const = default;
};

/// What the metric `seqeval` of the `evaluate` package gives.
struct SeqevalScores {
  std::vector<std::pair<std::string, SpanScores>> types;  ///< by name, of references and predictions
  SpanScores overall;
  double accuracy = 0;  ///< of tags
};

/// Tags of sentences: as texts, or as ids into a list of labels.
using TagTexts = std::vector<std::vector<std::string>>;
using TagIds = std::vector<std::vector<int32_t>>;

/// Scores of predictions against references, a list of tags per sentence, to the last bit those of seqeval
/// 1.2.2 with scheme None and mode None.  Spans that differ in an end or in the type are different entities.
/// Errors: kUsage where the sentences differ in number or length, have no tag at all, a tag is empty or an id
/// has no label.
SeqevalScores seqeval(const TagTexts& references, const TagTexts& predictions,
                      TagStyle style = TagStyle::kPrefix);
SeqevalScores seqeval(const TagIds& references, const TagIds& predictions,
                      std::span<const std::string> labels, TagStyle style = TagStyle::kPrefix);

/// The dictionary that run_ner's compute_metrics returns, keys in its order: precision, recall, f1, accuracy;
/// or, with --return_entity_level_metrics, <type>_precision, _recall, _f1 and _number (a count) of each type,
/// then overall_precision, overall_recall, overall_f1, overall_accuracy.  Where names of types collide with
/// these, later values replace earlier ones, as in Python.
MetricValues seqeval_metrics(const SeqevalScores& scores, bool entity_level);

}  // namespace lathe
