#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/io/model_folder.h"
#include "lathe/models/task_model.h"

namespace lathe {

/// Where what a checkpoint has differs from what a model needs.
struct LoadReport {
  struct Mismatch {
    int index = 0;                    ///< of the parameter
    std::string name, found, wanted;  ///< the checkpoint's name; shapes as text
  };
  std::vector<int> missing;             ///< parameters that the checkpoint lacks
  std::vector<std::string> unexpected;  ///< tensors that the model lacks
  std::vector<Mismatch> mismatched;     ///< same name, other shape: not loaded, also in `missing`
};

/// Hands every parameter that the checkpoint holds to `write`, as it is stored.  Names match with or without
/// the base model's prefix ("bert."), and with LayerNorm's old names gamma and beta.  Tensors that say
/// nothing new (position_ids, the tied decoder) count neither way; where only the tied one is there, it is
/// taken.  Errors: kInvalidData for a weight that is not finite (tensor, place and file are named);
/// kUnsupported for a tied one of other values.
LoadReport load_parameters(const TaskModel& model, const Checkpoint& checkpoint,
                           const std::function<void(int index, const TensorView& values)>& write);

/// Tells each table in which dtype the checkpoint stores it (nn::Parameter::stored).
void note_storage(TaskModel& model, const Checkpoint& checkpoint);

/// Errors: kInvalidData for NaN or infinity in a tensor of that name and file, with its place.
void check_finite(const TensorView& values, const std::string& name, const std::string& file);

/// The report as Hugging Face users know it; empty if all is well.
std::string to_string(const LoadReport& report, const TaskModel& model, const std::string& folder);

}  // namespace lathe
