#pragma once
#include <array>
#include <memory>

#include "lathe/models/task_model.h"
#include "lathe/optim/shards.h"

namespace lathe {

/// The programs of a training run.  All work on the states "parameters", "frozen" and, where gradients are
/// accumulated, "gradients": flat f32 arenas laid out by nn::flat_layout; and on the optimizer's
/// (optimizer_states).
///
/// Where several processes train (ProgramOptions::ranks), the gradients of an update are summed over them in
/// buckets, loss is the mean over all of them, and the output stop says on how many of them the input stop
/// is 1.  kAccumulate then gives no loss: it adds it up in the state "loss", for kUpdate.  The
/// gradient of the words' table is summed from what the rows of all ranks give to it,
/// PackedBatch::all_input_ids, where less travels so: then all ranks have batches of one size.
enum class ProgramKind {
  kStep,        ///< forward, backward, clip, optimizer; outputs loss, grad_norm
  kAccumulate,  ///< forward, backward, gradients = keep · gradients + new ones; output loss
  kUpdate,      ///< clip and optimizer on the accumulated gradients; output grad_norm
  kEvaluate,    ///< forward without dropout; outputs logits and, if there are targets, loss
  kBase,        ///< forward of the base without dropout; output base
};

/// What programs give.  In a program each has its name, by which it is asked for: in what order they stand
/// is of no meaning.
enum class Output { kLoss, kStop, kGradNorm, kLogits, kBase };
inline constexpr std::array<const char*, 5> kOutputNames{"loss", "stop", "grad_norm", "logits", "base"};
inline const char* name_of(Output output) { return kOutputNames[static_cast<size_t>(output)]; }

/// The shapes for which a program is traced: N packed tokens, B rows.
struct Bucket {
  int64_t tokens = 0, rows = 0;
  auto operator<=>(const Bucket&) const = default;
};

struct ProgramOptions {
  DType dtype = DType::f32;  ///< of activations: f32, or bf16 or f16 for autocast
  OptimizerOptions optimizer;
  bool targets = true;          ///< kEvaluate: also the loss
  double label_smoothing = 0;   ///< Targets::smoothing
  int64_t recompute_every = 0;  ///< nn::Trace's, in training
  bool base_given = false;      ///< the head alone: the base's output is an input
  /// Of the base's linear layers, kInt8 in kEvaluate alone.  The head has none: a classifier's work is
  /// nothing beside the base's, and what it rounds goes straight into the scores.
  nn::Quantization quantization = nn::Quantization::kNone;
  /// kStep by AdamW, dtype bf16: gradients of linear layers' weights are bf16, as torch.autocast computes
  /// them, for the exchange between processes, norm and update.  A session sets it where its device has
  /// op::linear_bwd_weight_cast.
  bool rounded_gradients = false;
  int64_t longest_row = 0;                   ///< Program::longest_row
  int ranks = 1;                             ///< processes that train together
  DType gradient_wire = DType::f32;          ///< what of the gradients travels between them: or bf16
  int64_t bucket_bytes = int64_t{25} << 20;  ///< of gradients that are summed at once, about
  Shards shards;                             ///< who of them holds which of the optimizer's states
};

/// The trainable parameters of a model in the order of nn::flat_layout.
FlatParameters flat_parameters(const TaskModel& model);

/// Traces one program.  Inputs by name: input_ids, token_type_ids, position_ids, position_rows, sample_ids
/// [N]; cu [B+1]; all_input_ids [ranks · N]; row_ids, cls_index [B]; rng [2]; targets: labels, or values [B,
/// K], or starts and ends; loss_weight [1] (dL/dloss; with several ranks dL/dloss of this one's share), keep
/// [1], hyper [kHyperCount], stop [1]; base [N or B, hidden_size] in the dtype of activations.  Those that a
/// program has no use for are not there; with base_given and tokens = 0 all that are [N] are not. num_labels:
/// columns of `values`.  Errors: kInternal if base_given and the base is not frozen.
std::unique_ptr<Program> build_program(TaskModel& model, ProgramKind kind, Bucket bucket, int64_t num_labels,
                                       const ProgramOptions& options);

}  // namespace lathe
