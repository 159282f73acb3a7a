#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/models/task_model.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/optim/optimizer.h"
#include "lathe/program/backend.h"
#include "lathe/tasks/column_inputs.h"

namespace lathe {

/// All that changes from step to step; written to the device as data.
struct StepScalars {
  double learning_rate = 0;
  double head_learning_rate = 0;  ///< read if the head has one of its own (ProgramOptions::own_head_rate)
  int64_t update_step = 1;        ///< key of all dropout of this update, from 1
  int64_t adam_step = 1;          ///< t of the optimizer (step_factors): updates applied, including this one
  uint32_t seed = 42;             ///< of dropout
  double max_grad_norm = 1;       ///< 0: no clipping
  double loss_weight = 1;         ///< dL/dloss: 1 / micro-batches of this update
  double loss_scale = 1;          ///< factor of the gradients; norm and update divide by it (loss_scaler.h)
  bool first_micro = true;        ///< gradients start anew
  bool stop = false;              ///< with several ranks: this one was asked to stop
};

/// The base's output for a batch: rows of hidden_size elements in the dtype of activations, one per token or
/// per sample of the batch (TaskModel::per_token).  Empty: the base must run.
using BaseRows = std::span<const std::byte>;

/// What programs read in one run: a batch, what is derived from it, and the scalars of the step.
class StepInputs {
 public:
  /// `model` must outlive it.  ranks: processes that share dL/dloss, of which this is `rank`.
  StepInputs(const TaskModel& model, const OptimizerOptions& optimizer, int ranks, int rank)
      : model_(model), optimizer_(optimizer), ranks_(ranks), rank_(rank) {}

  /// Sets the inputs for the next run; batch (null: none) and base must live as long as the run.
  /// Errors: kInvalidData for a batch that the model cannot read.
  void set(const PackedBatch* batch, const StepScalars& scalars, BaseRows base);
  /// After `set`: the batch has so many rows, the further ones without tokens.
  void fill_rows(int64_t rows);
  /// What the head gave for the rows of a batch, or the gradient by it; both live as long as the run.
  struct OfHead {
    std::span<const float> given, gradient;
  };
  void give_head(const OfHead& of_head) { head_ = of_head; }
  /// The inputs of a program, by their names there (build_program); valid until the next call of either.
  /// Errors: kInternal for a name that is not known; kUsage where a batch lacks the token ids of all ranks.
  const Slot& slot(const Program& program);

 private:
  std::span<const std::byte> content(const ValueInfo& value);
  const std::vector<int32_t>& ids_of_all_ranks() const;
  void number_positions(int32_t padding);

  const TaskModel& model_;
  OptimizerOptions optimizer_;
  int ranks_, rank_;
  const PackedBatch* batch_ = nullptr;
  BaseRows base_;
  OfHead head_;
  std::vector<int32_t> begins_, row_ids_, position_rows_, scored_sample_ids_, scored_position_ids_;
  PoolingInputs pooling_;
  ColumnInputs columns_;
  std::vector<int32_t> one_type_;  // token types of a model that has one, whatever the tokenizer says
  std::array<uint32_t, 2> rng_{};
  std::array<float, kHyperCount> hyper_{}, head_hyper_{};
  float loss_weight_ = 1, keep_ = 0, stop_ = 0, one_ = 1;
  Slot slot_;
};

}  // namespace lathe
