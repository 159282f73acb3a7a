#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/tasks/task.h"

namespace lathe {

/// A base with the head that a task needs.  The forward pass reads the inputs of the current trace.
class TaskModel : public nn::Module {
 public:
  explicit TaskModel(TaskPtr task) : task_(std::move(task)) {}
  const Task& task() const { return *task_; }
  const TaskPtr& shared_task() const { return task_; }

  /// The forward pass up to the head: a row of hidden_size elements in the trace's dtype per token
  /// (per_token) or per row of the batch.  A row depends only on its own tokens.
  virtual Value base_output() = 0;
  /// What the head makes of a base's output.  Reads no ids of tokens.
  virtual HeadOutput head(Value base) = 0;

  /// Names of the parameters of the base model begin so ("bert."); what follows is the head.
  virtual std::string base_prefix() const = 0;
  /// Every parameter of the base is frozen.
  bool base_frozen() const;
  /// The largest dropout probability of the base in training.
  virtual double base_dropout() const = 0;
  /// The base gives a row per token, [N, hidden_size]; else one per row, [B, hidden_size].
  bool per_token() const {
    const HeadKind kind = task_->head().kind;
    return kind != HeadKind::kSequenceClassification && kind != HeadKind::kMultipleChoice &&
           kind != HeadKind::kSentenceVector;
  }
  /// Of the tokens only those that are scored, [M, hidden_size]; no cache of a base's output holds these.
  bool per_scored() const {
    const HeadKind kind = task_->head().kind;
    return kind == HeadKind::kMaskedLM || kind == HeadKind::kCausalLM;
  }
  /// Nothing that the task gives or takes goes by row: a batch may have rows without tokens.
  bool rows_may_be_empty() const {
    return per_scored() || task_->head().kind == HeadKind::kTokenClassification;
  }
  /// Numbers of such a row.
  virtual int64_t hidden_size() const = 0;
  virtual int64_t vocab_size() const = 0;
  /// Tokens that a row may have.
  virtual int64_t max_positions() const = 0;
  /// Set: rows of the position table are numbered from this padding token's id + 1 over the tokens other than
  /// it, which have its id.  Not set: a token's row is its place in its text.
  virtual std::optional<int64_t> position_padding() const { return std::nullopt; }
  /// 0: there are no token types.
  virtual int64_t type_vocab_size() const = 0;
  /// Standard deviation of new weights.
  virtual double initializer_range() const = 0;
  /// A tensor of transformers' model that is another one, as the weight of a head over the vocabulary is the
  /// word table.  Files that it saves hold the other one; older ones may hold both, or this one.
  struct Tie {
    std::string name, source;
  };
  virtual std::vector<Tie> ties() const { return {}; }
  /// Whether transformers' class divides the loss by the items of an update (--hf_compat_loss_scale).
  virtual bool divides_by_items() const { return false; }

 private:
  TaskPtr task_;
};

}  // namespace lathe
