#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine/parameters.h"
#include "lathe/io/file_system.h"
#include "lathe/io/torch/pickle.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/loss_scaler.h"

namespace lathe {

/// The files that Hugging Face's Trainer keeps next to the weights of a checkpoint.  Lathe writes them under
/// the same names in the same layout, so that a run can go on in either; the moments are in no other file.
/// Source: transformers 5.23 trainer.py, _save_optimizer_and_scheduler and _load_optimizer_and_scheduler.
inline constexpr const char* kOptimizerFile = "optimizer.pt";
inline constexpr const char* kSchedulerFile = "scheduler.pt";
inline constexpr const char* kScalerFile = "scaler.pt";

/// How far optimizer and schedule have come, and with which settings.
struct OptimizerProgress {
  int64_t applied = 0;        ///< updates that touched the weights: AdamW's t
  int64_t schedule_step = 0;  ///< of the learning rate: the same, where both files are of one run
  double base_learning_rate = 0, learning_rate = 0;
  AdamWOptions adamw;   ///< for other optimizers only the weight decay
  bool fused = true;    ///< torch's fused kernels, in Python: AdamW's
  SgdOptions sgd = {};  ///< of SGD, but for the weight decay
  /// MetricSchedule::python_state; null where the learning rate follows the updates.
  nlohmann::json metric_schedule = {};
};

/// Writes optimizer.pt (param_groups[0]: parameters with weight decay, [1]: the rest, each in declared order;
/// state[i]: AdamW's step, exp_avg, exp_avg_sq; SGD's momentum_buffer; Adafactor's step, exp_avg_sq_row and
/// exp_avg_sq_col of a matrix, exp_avg_sq of a vector), scheduler.pt and, with a scaler, scaler.pt.
/// States are read a part at a time: by Parameters::read_whole_state.
Status write_python_state(FileSystem& fs, const std::string& folder, const Parameters& parameters,
                          const OptimizerProgress& progress, const std::optional<LossScaler::State>& scaler);

/// What optimizer.pt holds.
struct PythonOptimizer {
  /// A tensor of the file, and where its elements lie in which of the flat states.
  struct Part {
    std::string state;
    size_t offset = 0;
    const TensorView* tensor = nullptr;
  };
  std::string optimizer;  ///< as Parameters::optimizer
  OptimizerProgress progress;
  std::vector<Part> parts;  ///< of all of its states; none where nothing was updated, or SGD has no momentum
};
/// From the content of a file, which must outlive it, for a model of these parameters.  Of SGD it does not
/// know what was applied.
/// Errors: kInvalidData naming what is missing, the parameter that has another shape, or whose count of
/// updates is another; kUnsupported for optimizers and settings that Lathe lacks.
PythonOptimizer python_optimizer_from(const PickleValue& root, const std::string& path,
                                      const std::vector<nn::Parameter>& parameters, const nn::Layout& layout);

/// Reads optimizer.pt into its states, a tensor at a time once all of the file was found good, and
/// scheduler.pt where it is.  updates: of the run, all of which were applied where neither file says how
/// many.  known: the bytes of optimizer.pt were checked by a digest.
/// Errors: kNotFound; kInvalidData if another optimizer than this one wrote it; those of
/// python_optimizer_from and TorchFile::open.
OptimizerProgress read_python_state(FileSystem& fs, const std::string& folder, Parameters& parameters,
                                    int64_t updates, bool known = false);
/// scaler.pt; a fresh one where there is none.
LossScaler::State read_python_scaler(FileSystem& fs, const std::string& folder);

}  // namespace lathe
