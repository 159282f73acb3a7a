#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/metrics.h"
#include "lathe/data/retrieval/pair_table.h"
#include "lathe/models/model_config.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// What a cross-encoder learns of pairs, by the names of sentence-transformers' losses, and the labels that
/// it has: one score or several classes.
class PairTask {
 public:
  static constexpr const char* kBce = "BinaryCrossEntropyLoss";
  static constexpr const char* kMse = "MSELoss";
  static constexpr const char* kCe = "CrossEntropyLoss";

  PairTask() = default;
  /// loss: none is kBce, of a model of several classes kCe.  config: of the model, whose labels it has if it
  /// is a classifier already.  num_labels: so many, whatever it has; 0: as it has.
  PairTask(const std::optional<std::string>& loss, const ModelConfig& config, int64_t num_labels = 0);

  const std::string& loss() const { return loss_; }
  bool has_classes() const { return loss_ == kCe; }
  /// The names of the model's labels.
  const std::vector<std::string>& labels() const { return labels_; }
  HeadOptions head(bool ignore_mismatched_sizes) const;

  /// Takes the classes of training data, too.  Errors: kInvalidData where there is only one.
  void learn_classes(const PairTable& pairs);
  /// Errors: kInvalidData, naming file, row and value, for labels that the loss does not take.
  void check_labels(const PairTable& pairs) const;

  /// The settings of the model's folder, or those of the loss.  folder: empty is none; activation: what was
  /// asked for, none if nothing.
  std::shared_ptr<const CrossEncoderFolder> settings_of(const AutoModel& model, const std::string& folder,
                                                        const std::optional<std::string>& activation) const;

 private:
  std::string loss_ = kBce;
  std::vector<std::string> labels_;
};

/// The pairs as texts with labels, for a tokenizer and for what people read.
TextDataset texts_of(PairTable pairs, const PairTask& task);

/// The scores that a cross-encoder gives: of one label after its activation, of classes the logits.
std::vector<float> pair_scores(const AutoModel& model, std::span<const float> logits);

/// What an evaluation of pairs says, as the evaluators of CrossEncoder name it.  groups: of queries with
/// several documents (groups_by_query) where the labels are 0 and 1.
struct PairEvaluation {
  std::vector<double> labels;
  std::vector<QueryGroup> groups = {};
  bool binary = false;   ///< each label is 0 or 1, of one score
  bool classes = false;  ///< labels are numbers of classes

  PairEvaluation() = default;
  PairEvaluation(const PairTable& pairs, const PairTask& task);

  /// scores: [pairs], of classes [pairs, classes].
  MetricValues metrics(std::span<const float> scores) const;
  /// The names of these, without the loss.
  std::vector<std::string> metric_names() const;
};

}  // namespace lathe
