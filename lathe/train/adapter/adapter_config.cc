#include "lathe/train/adapter/adapter_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

/// Settings that make another kind of adapter of a LoRA, unless they are null, false or empty.
constexpr const char* kOtherKinds[] = {"use_dora",
                                       "use_qalora",
                                       "use_bdlora",
                                       "lora_bias",
                                       "rank_pattern",
                                       "alpha_pattern",
                                       "exclude_modules",
                                       "layers_to_transform",
                                       "layer_replication",
                                       "target_parameters",
                                       "trainable_token_indices",
                                       "alora_invocation_tokens",
                                       "arrow_config",
                                       "kasa_config",
                                       "velora_config",
                                       "monteclora_config"};

bool is_off(const nlohmann::json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

void check_kind(const nlohmann::json& json, const std::string& path) {
  const auto type = value_or<std::string>(json, "peft_type", "LORA", path);
  if (type != "LORA")
    fail(ErrorCode::kUnsupported, "{}: \"peft_type\": found {}, expected LORA, the adapters that Lathe has",
         path, type);
  for (const char* key : kOtherKinds)
    if (const auto it = json.find(key); it != json.end() && !is_off(*it))
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\": found {}, which Lathe has not; merge it with PEFT (merge_and_unload) and take the "
           "merged model",
           path, key, it->dump());
  const auto bias = value_or<std::string>(json, "bias", "none", path);
  if (bias != "none")
    fail(ErrorCode::kUnsupported, "{}: \"bias\": found {}, expected none: Lathe's adapters train no biases",
         path, bias);
}

/// Names, or one of them: PEFT takes a text as a pattern, except all-linear.
std::vector<std::string> names_at(const nlohmann::json& json, const char* key, const std::string& path) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return {};
  if (it->is_string() && *it == kAllLinear) return {kAllLinear};
  if (it->is_string())
    fail(ErrorCode::kUnsupported, "{}: \"{}\": found the pattern {}, expected a list of names", path, key,
         it->dump());
  return required<std::vector<std::string>>(json, key, path);
}

}  // namespace

bool is_adapter(FileSystem& fs, const std::string& folder) {
  return fs.exists(join_path(folder, kAdapterConfigFile));
}

Adapter read_adapter_config(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kAdapterConfigFile);
  const nlohmann::json json = read_json(fs, path);
  if (!json.is_object()) fail(ErrorCode::kInvalidData, "{}: expected a JSON object", path);
  check_kind(json, path);
  Adapter adapter{.folder = folder};
  adapter.options = {.rank = value_or<int64_t>(json, "r", 8, path),
                     .alpha = value_or<double>(json, "lora_alpha", 8, path),
                     .dropout = value_or<double>(json, "lora_dropout", 0, path),
                     .rslora = value_or<bool>(json, "use_rslora", false, path),
                     .targets = names_at(json, "target_modules", path),
                     .modules_to_save = names_at(json, "modules_to_save", path)};
  constexpr int64_t kMostRank = 1 << 20;
  if (adapter.options.rank < 1 || adapter.options.rank > kMostRank)
    fail(ErrorCode::kInvalidData, "{}: \"r\": found {}, expected 1 to {}", path, adapter.options.rank,
         kMostRank);
  if (!(adapter.options.dropout >= 0 && adapter.options.dropout < 1))
    fail(ErrorCode::kInvalidData, "{}: \"lora_dropout\": found {}, expected 0 to below 1", path,
         adapter.options.dropout);
  adapter.task_type = value_or<std::string>(json, "task_type", "", path);
  adapter.base = value_or<std::string>(json, "base_model_name_or_path", "", path);
  return adapter;
}

nlohmann::json adapter_config_json(const Adapter& adapter) {
  const nn::AdapterOptions& options = adapter.options;
  const auto alpha = static_cast<int64_t>(options.alpha);
  const bool whole = static_cast<double>(alpha) == options.alpha;
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::json() : nlohmann::json(value);
  };
  return {{"alpha_pattern", nlohmann::json::object()},
          {"auto_mapping", nullptr},
          {"base_model_name_or_path", text(adapter.base)},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"layers_pattern", nullptr},
          {"layers_to_transform", nullptr},
          {"lora_alpha", whole ? nlohmann::json(alpha) : nlohmann::json(options.alpha)},
          {"lora_dropout", options.dropout},
          {"modules_to_save", options.modules_to_save},
          {"peft_type", "LORA"},
          {"r", options.rank},
          {"rank_pattern", nlohmann::json::object()},
          {"revision", nullptr},
          {"target_modules", options.targets},
          {"task_type", text(adapter.task_type)},
          {"use_dora", false},
          {"use_rslora", options.rslora}};
}

std::vector<std::string> default_targets(const std::string& model_type) {
  const auto is = [&](const char* type) { return model_type == type; };
  const bool known = is("bert") || is("roberta") || is("xlm-roberta") || is("electra");
  if (known) return {"query", "value"};
  const bool decodes = is("llama") || is("mistral") || is("qwen2") || is("qwen3") || is("gemma3_text");
  return decodes ? std::vector<std::string>{"q_proj", "v_proj"} : std::vector<std::string>();
}

}  // namespace lathe
