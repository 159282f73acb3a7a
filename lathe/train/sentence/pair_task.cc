#include "lathe/train/sentence/pair_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/data/retrieval/pair_metrics.h"
#include "lathe/data/retrieval/ranking_metrics.h"
#include "lathe/models/sentence/sentence_folder.h"

namespace lathe {

PairTask::PairTask(const std::optional<std::string>& loss, const ModelConfig& config, int64_t num_labels) {
  const auto names = config.json->find("architectures");
  const std::string its_class = architecture(config, HeadKind::kSequenceClassification);
  if (names != config.json->end() && names->is_array() &&
      std::find(names->begin(), names->end(), its_class) != names->end())
    labels_ = config_labels(config);
  if (num_labels > 0 && num_labels != std::ssize(labels_)) {
    labels_.clear();
    for (int64_t i = 0; i < num_labels; ++i) labels_.push_back(fmt::format("LABEL_{}", i));
  }
  loss_ = loss.value_or(labels_.size() > 1 ? kCe : kBce);
  if (!has_classes() && labels_.size() != 1) labels_ = {"LABEL_0"};
}

HeadOptions PairTask::head(bool ignore_mismatched_sizes) const {
  HeadOptions head{pair_score, labels_, ignore_mismatched_sizes};
  if (loss_ == kMse) head.task = pair_value;
  if (has_classes()) head.task = pair_class;
  return head;
}

void PairTask::learn_classes(const PairTable& pairs) {
  if (!has_classes()) return;
  const int64_t named =
      pairs.labels.empty() ? 0 : static_cast<int64_t>(*std::ranges::max_element(pairs.labels)) + 1;
  const int64_t classes = std::max<int64_t>(named, std::ssize(labels_));
  if (classes < 2)
    fail(ErrorCode::kInvalidData,
         "{}: found the class 0 in every row, expected two classes or more: add pairs of the others, or give "
         "--loss {}",
         pairs.origin, kBce);
  for (int64_t i = std::ssize(labels_); i < classes; ++i) labels_.push_back(fmt::format("LABEL_{}", i));
}

void PairTask::check_labels(const PairTable& pairs) const {
  const auto classes = static_cast<double>(labels_.size());
  for (size_t i = 0; i < pairs.labels.size(); ++i) {
    const double label = pairs.labels[i];
    const bool fits =
        loss_ == kMse || (has_classes() ? label >= 0 && label == std::floor(label) && label < classes
                                        : label >= 0 && label <= 1);
    if (fits) continue;
    const std::string found =
        fmt::format("{}: column '{}': found {}", pairs.place(i), pairs.label_column, label);
    if (has_classes())
      fail(ErrorCode::kInvalidData,
           "{}, expected the number of a class, 0 to {}: mend or leave out the row, or train scores with "
           "--loss {} (0 to 1) or {}",
           found, classes - 1, kBce, kMse);
    fail(ErrorCode::kInvalidData,
         "{}, expected 0 to 1, as {} takes it: bring the scores to this range, as score / 5 does with 0 to "
         "5, or give --loss {} (scores of any size) or {} (classes)",
         found, kBce, kMse, kCe);
  }
}

std::shared_ptr<const CrossEncoderFolder> PairTask::settings_of(
    const AutoModel& model, const std::string& folder, const std::optional<std::string>& activation) const {
  FileSystem& fs = real_file_system();
  CrossEncoderFolder settings{
      .activation = loss_ == kBce ? "Sigmoid" : "Identity", .prompts = {}, .default_prompt_name = {}};
  if (!folder.empty() && is_cross_encoder_folder(fs, folder))
    settings = read_cross_encoder_folder(fs, folder, std::ssize(model.labels));
  if (activation) settings.activation = *activation;
  return std::make_shared<const CrossEncoderFolder>(std::move(settings));
}

TextDataset texts_of(PairTable pairs, const PairTask& task) {
  TextDataset texts{.origin = std::move(pairs.origin), .first = {}};
  texts.columns.texts = {pairs.first_column, pairs.second_column};
  texts.label_set.kind = task.has_classes() ? LabelKind::kClasses : LabelKind::kRegression;
  if (task.has_classes()) texts.label_set.names = task.labels();
  texts.labelled = !pairs.labels.empty();
  if (task.has_classes())
    texts.labels.assign(pairs.labels.begin(), pairs.labels.end());
  else
    texts.targets.assign(pairs.labels.begin(), pairs.labels.end());
  texts.first = std::move(pairs.first);
  texts.second = std::move(pairs.second);
  return texts;
}

std::vector<float> pair_scores(const AutoModel& model, std::span<const float> logits) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (model.labels.size() == 1 && model.cross_encoder != nullptr &&
      model.cross_encoder->activation == "Sigmoid")
    for (float& x : scores) x = 1 / (1 + std::exp(-x));
  return scores;
}

PairEvaluation::PairEvaluation(const PairTable& pairs, const PairTask& task)
    : labels(pairs.labels),
      binary(!task.has_classes() && pairs.has_binary_labels()),
      classes(task.has_classes()) {
  if (binary) groups = groups_by_query(pairs);
}

MetricValues PairEvaluation::metrics(std::span<const float> scores) const {
  const std::vector<int32_t> whole(labels.begin(), labels.end());
  if (classes) return pair_class_metrics(scores, whole);
  MetricValues values;
  if (binary)
    values = pair_score_metrics(scores, whole);
  else if (labels.size() > 1)
    values = pair_correlation_metrics(scores, labels);
  if (groups.empty()) return values;
  std::vector<RankedList> lists;
  for (const QueryGroup& group : groups) {
    RankedList& list = lists.emplace_back();
    for (const size_t pair : group.pairs) {
      list.relevant.push_back(labels[pair] > 0);
      list.scores.push_back(scores[pair]);
    }
  }
  for (auto& value : reranking_metrics(lists)) values.push_back(std::move(value));
  return values;
}

std::vector<std::string> PairEvaluation::metric_names() const {
  std::vector<std::string> names;
  if (classes) return {"f1_macro", "f1_micro", "f1_weighted"};
  if (binary)
    names = {"accuracy", "accuracy_threshold", "f1", "f1_threshold", "precision",
             "recall",   "average_precision"};
  else
    names = {"pearson", "spearman"};
  if (!groups.empty()) names.insert(names.end(), {"map", "mrr@10", "ndcg@10"});
  return names;
}

}  // namespace lathe
