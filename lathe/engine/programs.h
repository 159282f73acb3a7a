#pragma once
#include <memory>

#include "lathe/models/task_model.h"
#include "lathe/optim/shards.h"

namespace lathe {

/// The programs of a training run.  All work on the states of nn::layout_of; on "gradients", flat as the
/// trained weights are, if gradients are accumulated; and on the optimizer's states (optimizer_states).
///
/// If several processes train (ProgramOptions::ranks), the gradients of an update are summed over them in
/// buckets, loss is the mean over all of them, and the output stop is the number of them whose input stop is
/// 1. kAccumulate then has no output loss: it adds the loss to the state "loss", for kUpdate.  If less data
/// travels that way, the gradient of the word table is summed from the contributions of the rows of all ranks
/// (PackedBatch::all_input_ids): then all ranks have batches of one size.
enum class ProgramKind {
  kStep,        ///< forward, backward, clip, optimizer; outputs loss, grad_norm
  kAccumulate,  ///< forward, backward, gradients = keep · gradients + new ones; output loss
  kUpdate,      ///< clip and optimizer on the accumulated gradients; output grad_norm
  kEvaluate,  ///< forward without dropout; outputs logits if wanted and, if there are targets, loss, correct
  kBase,      ///< forward of the base without dropout; output base
  kForward,   ///< forward as in training; output logits
  kLoss,      ///< of what the head gave, an input; outputs logits_gradient and, of one process, loss
};

/// The outputs of programs, by name; their order has no meaning.
inline constexpr const char *kLoss = "loss", *kStop = "stop", *kGradNorm = "grad_norm", *kLogits = "logits",
                            *kCorrect = "correct", *kBaseRows = "base", *kLogitsGradient = "logits_gradient";

/// The shapes for which a program is traced: N packed tokens, B rows, M tokens that are scored, and S samples
/// (0: each is a row).
struct Bucket {
  int64_t tokens = 0, rows = 0, scored = 0, samples = 0;
  auto operator<=>(const Bucket&) const = default;
};

struct ProgramOptions {
  DType dtype = DType::f32;  ///< of activations: f32, or bf16 or f16 for autocast
  OptimizerOptions optimizer;
  bool own_head_rate = false;   ///< the head has a learning rate of its own: an input head_hyper
  bool targets = true;          ///< kEvaluate: also the loss
  bool scores = true;           ///< kEvaluate: also the logits
  double label_smoothing = 0;   ///< Task::LossOptions::smoothing
  int64_t recompute_every = 0;  ///< nn::Trace's, in training
  bool base_given = false;      ///< only the head runs: the base's output is an input
  bool gradient_given = false;  ///< kAccumulate: the gradient by what the head gives is an input
  int64_t head_width = 0;       ///< kLoss: columns of what the head gives
  /// Of the base's linear layers; kInt8 only in kEvaluate.  The head is not quantized: a classifier's work is
  /// small next to the base's, and its rounding errors would go straight into the scores.
  nn::Quantization quantization = nn::Quantization::kNone;
  /// kStep with AdamW and dtype bf16: gradients of linear layers' weights are bf16, as torch.autocast
  /// computes them, for the exchange between processes, norm and update.  A session sets it if its device has
  /// op::linear_bwd_weight_cast.
  bool rounded_gradients = false;
  nn::StorageRule storage;                   ///< of frozen parameters
  int64_t longest_row = 0;                   ///< Program::longest_row
  int ranks = 1, rank = 0;                   ///< processes that train together, and which this is
  DType gradient_wire = DType::f32;          ///< dtype in which gradients travel between them: or bf16
  int64_t bucket_bytes = int64_t{25} << 20;  ///< approximate size of the gradients that are summed at once
  Shards shards;                             ///< which process holds which part of the optimizer's states
};

/// The trainable parameters of a model in the order of nn::layout_of.
FlatParameters flat_parameters(const TaskModel& model);

/// Traces one program.  Inputs by name: what model and task ask for (nn::Inputs); all_input_ids [ranks · N];
/// loss_weight [1] (dL/dloss; with several ranks dL/dloss of this one's share), keep [1], hyper, head_hyper
/// [kHyperCount], stop [1]; logits and logits_gradient [B, width of the head's output] f32; one [1], 1; base
/// [N or B, hidden_size] in the dtype of activations.  With base_given and tokens = 0 it has none that are
/// [N].  Errors: kInternal if base_given and the base is not frozen.
std::unique_ptr<Program> build_program(TaskModel& model, ProgramKind kind, Bucket bucket,
                                       const ProgramOptions& options);

}  // namespace lathe
