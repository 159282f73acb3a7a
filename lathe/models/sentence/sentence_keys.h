#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/io/tensor_view.h"
#include "lathe/models/sentence/sentence_folder.h"

namespace lathe {

inline constexpr const char* kSentenceConfigFile = "config_sentence_transformers.json";

/// The key of the old form that turns a mode on: "pooling_mode_mean_tokens".
const char* old_key_of(PoolingMode mode);
/// The modes of 1_Pooling/config.json, by `pooling_mode` or the old keys; mean where there is none.  Errors:
/// kInvalidData, kUnsupported for an unknown name.
std::vector<PoolingMode> pooling_modes_of(const nlohmann::json& config, const std::string& file);
/// The prompts of config_sentence_transformers.json, null ones left out.  Errors: kInvalidData, too for a
/// default that is none of them.
std::map<std::string, std::string> prompts_of(const nlohmann::json& config, const std::string& file,
                                              std::optional<std::string>& default_name);
/// The numbers of a tensor as float.  Errors: kInvalidData for another shape or numbers that are not finite.
std::vector<float> floats_of(const TensorView& view, const Shape& shape, const std::string& what);

}  // namespace lathe
