#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lathe/io/model_folder.h"
#include "lathe/nn/adapter.h"

namespace lathe {

inline constexpr const char* kAllLinear = "all-linear";

/// A LoRA adapter: what its adapter_config.json says.
struct Adapter {
  nn::AdapterOptions options;
  std::string task_type;  ///< SEQ_CLS, TOKEN_CLS, QUESTION_ANS; empty: not said
  std::string base;       ///< name or folder of the model that it belongs to
  std::string folder;     ///< where its weights are; empty: it is new
};

/// Whether a folder holds an adapter.  It then counts as one, also if there is a model next to it, as for
/// transformers.
bool is_adapter(FileSystem& fs, const std::string& folder);

/// Errors: kNotFound, kInvalidData; kUnsupported for what is no LoRA, or one of a kind that Lathe has not.
Adapter read_adapter_config(FileSystem& fs, const std::string& folder);

/// The content of adapter_config.json.
nlohmann::json adapter_config_json(const Adapter& adapter);

/// The layers that PEFT adapts in models of this type if nobody says which; empty: it has no default.
/// Source: peft 0.21, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
std::vector<std::string> default_targets(const std::string& model_type);

}  // namespace lathe
