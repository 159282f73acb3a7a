#pragma once
#include <string>
#include <variant>
#include <vector>

#include "lathe/program/program.h"

namespace lathe {

/// Constants of AdamW, with PyTorch's names and defaults.  What changes from step to step is data
/// (ops/optimizer.h).
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
/// Of torch.optim.SGD.
struct SgdOptions {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// Of transformers' Adafactor with scale_parameter and relative_step off.
struct AdafactorOptions {
  double decay_rate = -0.8, clip_threshold = 1, weight_decay = 0;
};
using OptimizerOptions = std::variant<AdamWOptions, SgdOptions, AdafactorOptions>;

/// "adamw", "sgd", "adafactor": the op's name.
std::string name_of(const OptimizerOptions& options);

/// All trainable parameters as one flat tensor: their shapes in its order; `decayed`: how many of the first
/// elements have weight decay, whole parameters; `of_head`, for each shape: it may have a learning rate of
/// its own (empty: none may).
struct FlatParameters {
  std::vector<Shape> shapes;
  int64_t decayed = 0;
  std::vector<bool> of_head = {};
};

/// A flat f32 tensor that an optimizer keeps from update to update, zero at the start.
struct OptimizerState {
  std::string name;
  int64_t size = 0;
};
/// Named as in PyTorch.  Errors: kUnsupported if the optimizer cannot train a parameter's shape.
std::vector<OptimizerState> optimizer_states(const OptimizerOptions& options,
                                             const FlatParameters& parameters);

/// Elements kBiasCorrection1 (kTake) and kBiasCorrection2 of hyper in update `t`, from 1.
struct StepFactors {
  double first = 1, second = 1;
};
StepFactors step_factors(const OptimizerOptions& options, int64_t t);

/// The gradients [P] of all parameters, or of all but those from `first` on, which are `rounded` to bf16.
struct FlatGradients {
  Value exact, rounded;
  int64_t first = 0;
};

/// What an update reads and writes: parameters [P], their gradients, and the states.
struct OptimizerValues {
  Value parameters;
  FlatGradients gradients;
  std::vector<Value> states;  ///< as optimizer_states names them
};

/// What changes from step to step, [kHyperCount] f32 (ops/optimizers/optimizer.h).  head: for the parameters
/// `of_head`, of which kLearningRate and kTake count; none: they have `all`'s.
struct HyperValues {
  Value all, head;
};

struct Shards;

/// Appends norm, clipping and update.  Gives the norm [1] before clipping, of gradients without loss scale.
/// `loss` [1] guards the update: if it or the norm is not finite, nothing changes.
/// shards: if there are any, values.states are those of own_part; only that part is updated, and the others'
/// are gathered. Errors: kInternal if gradients are rounded for another optimizer than AdamW, or there are
/// shards for adafactor or next to hyper.head.
Value append_update(const OptimizerOptions& options, const FlatParameters& parameters,
                    const OptimizerValues& values, Value loss, const HyperValues& hyper,
                    const Shards& shards);

}  // namespace lathe
