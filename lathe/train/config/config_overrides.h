#pragma once
#include <string>

#include "lathe/models/model_config.h"

namespace lathe {

/// The configuration with other values for some of its keys: "hidden_dropout_prob=0,classifier_dropout=0".  A
/// key is one of config.json or one that the family has a default for; the value has the key's type: bool
/// (true, false), int, float or str.  Empty: the same configuration.
/// Errors: kUsage, naming the key and those like it, or the value and its type; as parse_model_config for
/// what no model can have.
/// Source: transformers' PretrainedConfig.update_from_string, for run_mlm.py's flag.
ModelConfig with_overrides(const ModelConfig& config, const std::string& overrides);

}  // namespace lathe
