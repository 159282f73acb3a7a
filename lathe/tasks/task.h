#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/dataset.h"
#include "lathe/data/tokenized.h"
#include "lathe/nn/module.h"
#include "lathe/ops/functional.h"
#include "lathe/tasks/predictions.h"

namespace lathe {

/// What stands after the base of a model: the classes of transformers, by what follows "For" in their names.
enum class HeadKind {
  kSequenceClassification,  ///< scores [B, labels]
  kTokenClassification,     ///< scores [N, labels]
  kQuestionAnswering,       ///< scores [N, 2]: of every token as the start and as the end of an answer
  kMaskedLM,                ///< scores [M, vocabulary], of the tokens of scored_index
  kMultipleChoice,          ///< scores [B, 1], compared within a sample
  kSentenceVector,          ///< vectors of texts [B, width]: a base, and modules of sentence-transformers
  kCausalLM,                ///< scores [M, vocabulary], of the token after each of scored_index
};
/// A head and the number of its scores, where the vocabulary or the class does not say it.
struct HeadSpec {
  HeadKind kind;
  int64_t labels;
};

/// What a head gives: scores; or what the scores over a vocabulary are made of, so that they need not exist.
struct HeadOutput {
  HeadOutput(Value all) : scores(all) {}
  HeadOutput(Value of_rows, Value of_classes, Value offset)
      : rows(of_rows), table(of_classes), bias(offset) {}
  Value scores;             ///< f32, in the shape of the HeadKind
  Value rows, table, bias;  ///< [M, C], [V, C], [V] or none: scores = rows · tableᵀ + bias
};

/// What a model is trained for: which head it needs, what it learns from, by which loss, and how two sets of
/// predictions are compared.  It holds nothing that changes, so that threads may share it.
///
/// A new task is a class in a file of this folder, a function in tasks.h, a line in saved_task
/// (train/auto_model.cc), a reader in lathe/data and a command in lathe/app/commands; a new head is a
/// HeadKind and its class in lathe/models.  Engine and trainer ask a task; they do not know which one it is.
class Task {
 public:
  /// A tensor of the data (TokenizedDataset::tensors) that the loss reads.
  struct Target {
    std::string name;  ///< Hugging Face's
    bool floats = false;
    Extent extent = Extent::kRow;
    int64_t width = 1;
    const char* words = "labels";  ///< how messages call it
  };

  Task(HeadSpec head, std::vector<Target> targets) : head_(head), targets_(std::move(targets)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;

  const HeadSpec& head() const { return head_; }
  /// "problem_type" of config.json; empty: none.
  virtual std::string problem_type() const { return ""; }
  /// The kind of labels that a sample has; none for tasks that do not label samples.
  virtual std::optional<LabelKind> label_kind() const { return {}; }
  /// Whether labels have names, which config.json lists.
  virtual bool names_labels() const { return label_kind().has_value(); }

  /// What the loss reads; a data set has all of them, or none.  Empty: the task has no loss.
  const std::vector<Target>& targets() const { return targets_; }
  bool is_labelled(const TensorList& tensors) const;
  /// Whether it compares the rows of a sample, of which there are several; else each sample is a row.
  virtual bool compares_rows() const { return false; }
  /// On top of what check_dataset checks for each task.  Errors: kInvalidData, naming `what` the data are and
  /// the sample.
  virtual void check_values(const TokenizedDataset& data, const char* what) const;

  struct LossOptions {
    double smoothing = 0;  ///< share of each label that is spread over all classes (op::cross_entropy)
    int ranks = 1,
        rank = 0;  ///< processes that train on batches of one size at the same time, and which this is
  };
  /// The mean loss [1] of a batch from what the head gives and, over a vocabulary, how many are right [1].
  /// Asks for the targets by name.
  virtual LossAndCorrect loss(const HeadOutput& head, nn::Inputs& inputs,
                              const LossOptions& options) const = 0;
  /// Samples whose activations are in memory at a time, where the loss of a larger batch is computed of what
  /// the head gave before (Session); 0: those of a whole batch.
  virtual int64_t cached_samples() const { return 0; }
  /// Whether an evaluation keeps the scores; else only the loss and how many are right.
  virtual bool keeps_scores() const { return true; }
  /// Whether its labels can be smoothed.
  virtual bool smooths() const { return false; }
  /// Whether transformers hands its model the number of items in an update (--hf_compat_loss_scale).
  virtual bool takes_item_count() const { return true; }

  /// Whether a token counts as much in each batch of an update, which several batches and processes make:
  /// always, not only with --hf_compat_loss_scale.
  virtual bool weighs_tokens() const { return false; }

  /// Whether its metrics compare texts, which need no labels.
  virtual bool scores_texts() const { return false; }
  /// How much two sets of predictions for the same data agree, as the end of a sentence.
  virtual std::string agreement_text(const Predictions& a, const Predictions& b) const;

 private:
  HeadSpec head_;
  std::vector<Target> targets_;
};
using TaskPtr = std::shared_ptr<const Task>;

}  // namespace lathe
