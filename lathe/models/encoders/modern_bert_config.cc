#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/config_messages.h"
#include "lathe/models/model_config.h"

namespace lathe {
namespace {

constexpr int64_t kMostTokens = 100'000'000;  // of a window: no model has more positions

/// Which layers attend within the window, by the list of version 5 or the number of version 4.
std::vector<bool> local_layers(const nlohmann::json& json, const ModelConfig& c) {
  std::vector<bool> local;
  if (json.contains("layer_types") && !json["layer_types"].is_null()) {
    for (const std::string& type : value_or<std::vector<std::string>>(json, "layer_types", {}, c.file)) {
      if (type != "sliding_attention" && type != "full_attention")
        fail(ErrorCode::kUnsupported,
             "{}: \"layer_types\" has \"{}\", expected \"full_attention\" or \"sliding_attention\": Lathe "
             "has no "
             "other; take a model of these",
             c.file, type);
      local.push_back(type == "sliding_attention");
    }
    if (static_cast<int64_t>(local.size()) != c.num_hidden_layers)
      fail(ErrorCode::kInvalidData, "{}: \"layer_types\" names {} layers, expected {}; {}", c.file,
           local.size(), c.num_hidden_layers, kTakeSavedConfig);
    return local;
  }
  const int64_t every = value_or<int64_t>(json, "global_attn_every_n_layers", 3, c.file);
  if (every < 1)
    fail(ErrorCode::kInvalidData, "{}: \"global_attn_every_n_layers\" is {}, expected 1 or more; {}", c.file,
         every, kTakeSavedConfig);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) local.push_back(i % every != 0);
  return local;
}

/// The base of the rotary angles, from version 5's "rope_parameters" or version 4's own key.
double theta_of(const nlohmann::json& json, const char* type, const char* old_key, double fallback,
                const std::string& file) {
  double theta = value_or<double>(json, old_key, fallback, file);
  const auto all = json.find("rope_parameters");
  if (all != json.end() && all->is_object() && all->contains(type) && (*all)[type].is_object()) {
    const nlohmann::json& own = (*all)[type];
    const std::string kind = value_or<std::string>(own, "rope_type", "default", file);
    if (kind != "default")
      fail(ErrorCode::kUnsupported,
           "{}: \"rope_type\" of \"{}\" is \"{}\", expected \"default\": Lathe has no other so far; take a "
           "model that "
           "has it",
           file, type, kind);
    theta = value_or<double>(own, "rope_theta", theta, file);
  }
  if (!(theta > 0))
    fail(ErrorCode::kInvalidData, "{}: \"rope_theta\" of \"{}\" is {}, expected a number above 0; {}", file,
         type, theta, kTakeSavedConfig);
  return theta;
}

void check(const nlohmann::json& json, const ModelConfig& c) {
  const auto only_gelu = [&](const char* key) {
    const std::string act = value_or<std::string>(json, key, "gelu", c.file);
    if (act != "gelu" && act != "gelu_python")
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\" is \"{}\", expected gelu: Lathe has no other for gated layers; take a model that has "
           "it",
           c.file, key, act);
  };
  only_gelu("hidden_activation");
  only_gelu("classifier_activation");
  if (json.contains("rope_scaling") && !json["rope_scaling"].is_null())
    fail(ErrorCode::kUnsupported,
         "{}: \"rope_scaling\" is given, expected none: Lathe does not stretch positions; take a model "
         "without "
         "it",
         c.file);
  if (c.hidden_size / c.num_attention_heads % 2 != 0)
    fail(ErrorCode::kInvalidData,
         "{}: \"hidden_size\" {} over \"num_attention_heads\" {} are heads of an odd width, expected an even "
         "one; {}",
         c.file, c.hidden_size, c.num_attention_heads, kTakeSavedConfig);
}

}  // namespace

ModernBertConfig parse_modern_bert_config(const nlohmann::json& json, const ModelConfig& c) {
  check(json, c);
  ModernBertConfig m;
  m.local = local_layers(json, c);
  const int64_t window = value_or<int64_t>(json, "local_attention", 2 * m.window, c.file);
  if (window < 2 || window > kMostTokens)
    fail(ErrorCode::kInvalidData, "{}: \"local_attention\" is {}, expected 2 to {}; {}", c.file, window,
         kMostTokens, kTakeSavedConfig);
  m.window = window / 2;
  m.global_theta = theta_of(json, "full_attention", "global_rope_theta", m.global_theta, c.file);
  // Version 4 takes null, unlike a key left out, for the global one.
  const auto local_theta = json.find("local_rope_theta");
  if (local_theta != json.end() && local_theta->is_null()) m.local_theta = m.global_theta;
  m.local_theta = theta_of(json, "sliding_attention", "local_rope_theta", m.local_theta, c.file);
  m.initializer_cutoff_factor =
      value_or<double>(json, "initializer_cutoff_factor", m.initializer_cutoff_factor, c.file);
  if (!(m.initializer_cutoff_factor >= 0.5))  // TorchGenerator::truncated_normal
    fail(ErrorCode::kUnsupported,
         "{}: \"initializer_cutoff_factor\" is {}, expected 0.5 or more: Lathe draws no weights nearer to 0; "
         "{}",
         c.file, m.initializer_cutoff_factor, kTakeSavedConfig);
  const auto flag = [&](bool& value, const char* key) { value = value_or<bool>(json, key, value, c.file); };
  flag(m.norm_bias, "norm_bias");
  flag(m.attention_bias, "attention_bias");
  flag(m.mlp_bias, "mlp_bias");
  flag(m.classifier_bias, "classifier_bias");
  flag(m.decoder_bias, "decoder_bias");
  m.classifier_activation =
      value_or<std::string>(json, "classifier_activation", m.classifier_activation, c.file);
  const std::string pooling = value_or<std::string>(json, "classifier_pooling", "cls", c.file);
  if (pooling != "cls" && pooling != "mean")
    fail(ErrorCode::kInvalidData, "{}: \"classifier_pooling\" is \"{}\", expected cls or mean; {}", c.file,
         pooling, kTakeSavedConfig);
  m.mean_pooling = pooling == "mean";
  return m;
}

void put_modern_bert_config(nlohmann::json& json, const ModernBertConfig& config,
                            const ModernBertConfig& there) {
  const auto put = [&](const char* key, const auto& value, const auto& read) {
    if (value != read) json[key] = value;
  };
  put("norm_bias", config.norm_bias, there.norm_bias);
  put("attention_bias", config.attention_bias, there.attention_bias);
  put("mlp_bias", config.mlp_bias, there.mlp_bias);
  put("classifier_bias", config.classifier_bias, there.classifier_bias);
  put("decoder_bias", config.decoder_bias, there.decoder_bias);
  put("classifier_activation", config.classifier_activation, there.classifier_activation);
  put("initializer_cutoff_factor", config.initializer_cutoff_factor, there.initializer_cutoff_factor);
  put("local_attention", 2 * config.window, 2 * there.window);
  if (config.mean_pooling != there.mean_pooling)
    json["classifier_pooling"] = config.mean_pooling ? "mean" : "cls";
  if (config.local != there.local) {
    json["layer_types"] = nlohmann::json::array();
    for (const bool local : config.local)
      json["layer_types"].push_back(local ? "sliding_attention" : "full_attention");
  }
  if (config.global_theta == there.global_theta && config.local_theta == there.local_theta) return;
  // Version 5's key, which holds over version 4's, of which one may stand for both.
  const auto rope = [](double theta) {
    return nlohmann::json{{"rope_type", "default"}, {"rope_theta", theta}};
  };
  json["rope_parameters"]["full_attention"] = rope(config.global_theta);
  json["rope_parameters"]["sliding_attention"] = rope(config.local_theta);
}

}  // namespace lathe
