#pragma once
#include <memory>
#include <optional>
#include <string>

#include "lathe/nn/module.h"

namespace lathe {

/// What a head predicts and by which loss it is trained.
enum class Problem {
  kSingleLabel,        ///< logits [B, K], cross entropy
  kMultiLabel,         ///< logits [B, K], binary cross entropy
  kRegression,         ///< logits [B, K], squared error
  kQuestionAnswering,  ///< logits [N, 2]: start and end scores of every token, mean of two cross entropies
  kMaskedLm,           ///< logits [N, V], cross entropy over labelled tokens
};

/// Targets of a batch; those that the problem does not use are no values.
struct Targets {
  Value labels;          ///< i32, [B] for kSingleLabel, [N] for kMaskedLm; outside of the classes: ignored
  Value values;          ///< f32 [B, K] for kMultiLabel and kRegression
  Value starts, ends;    ///< i32 [B] for kQuestionAnswering: token within the row; outside of it: ignored
  double smoothing = 0;  ///< share of each label that is spread over all classes (op::cross_entropy)
};

/// A base with a head.  The forward pass reads the batch of the current trace.
class TaskModel : public nn::Module {
 public:
  explicit TaskModel(Problem problem) : problem_(problem) {}
  Problem problem() const { return problem_; }

  /// The forward pass up to the head: a row of hidden_size elements in the trace's dtype per token
  /// (per_token) or per sample.  A row depends only on its own sample.
  virtual Value base_output() = 0;
  /// Scores in f32 of a base's output; shape by problem.  Reads no ids of tokens.
  virtual Value head(Value base) = 0;
  Value logits() { return head(base_output()); }
  /// Mean loss [1] of the batch.
  Value loss(Value logits, const Targets& targets) const;

  /// Names of the parameters of the base model begin so ("bert."); what follows is the head.
  virtual std::string base_prefix() const = 0;
  /// Every parameter of the base is frozen.
  bool base_frozen() const;
  /// The largest dropout probability of the base in training.
  virtual double base_dropout() const = 0;
  /// The base gives a row per token, [N, hidden_size]; else one per sample, [B, hidden_size].
  bool per_token() const { return problem_ == Problem::kQuestionAnswering || problem_ == Problem::kMaskedLm; }
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

 private:
  Problem problem_;
};

}  // namespace lathe
