#pragma once
#include <functional>
#include <span>
#include <string>

#include "lathe/train/auto_model.h"

namespace lathe {

/// Gives the model this adapter, before it has a trainer.  targets: "all-linear" stands for all linear layers
/// outside of modules_to_save.  PEFT's names of heads come to modules_to_save by the task.  flags: messages
/// call its settings as flags, and each target must name a layer; else by the file that they are from, and
/// one is enough.  Errors: kUsage or kInvalidData if nothing fits, naming the layers that there are.
void add_adapter(AutoModel& model, Adapter adapter, bool flags);

/// The folders of a model that was named by the folder of an adapter: weights of the base by `fetch`, config
/// and tokenizer of the adapter's folder if they are there.  A folder without an adapter is all of it.
ModelFolders folders_of(FileSystem& fs, const std::string& folder,
                        const std::function<std::string(const std::string& base)>& fetch);

/// The configuration of the model of an adapter whose folder has none: the base's, with the head that
/// adapter_config.json names and as many labels as its weights have.
ModelConfig config_of_adapter(FileSystem& fs, const std::string& folder, const ModelConfig& base);

/// Writes adapter_model.safetensors and adapter_config.json, each completely or not at all; removes the files
/// of a whole model.
Status write_adapter(FileSystem& fs, const std::string& folder, const AutoModel& model,
                     const Parameters& parameters);

/// Hands all that the model's adapter trains to `write`, from a folder.  Errors: kNotFound; kInvalidData for
/// tensors that are missing, left over, not finite or of another shape.
void load_adapter(FileSystem& fs, const std::string& folder, const AutoModel& model,
                  const std::function<void(int, std::span<const float>)>& write);

/// Writes the weights that a run has left in a folder: a model's, or those of the adapter that the model
/// has.
LoadReport load_weights(FileSystem& fs, const std::string& folder, const AutoModel& model,
                        Parameters& parameters);

}  // namespace lathe
