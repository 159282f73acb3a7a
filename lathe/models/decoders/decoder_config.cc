#include <cmath>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/config_messages.h"
#include "lathe/models/family.h"
#include "lathe/models/model_config.h"

namespace lathe {
namespace {

constexpr int64_t kWidestHead = 256;
constexpr int64_t kMostPositions = 100'000'000;  // no model has more positions

/// A number of the file; null and no such key are the fallback.
int64_t count_of(const nlohmann::json& json, const char* key, int64_t fallback, const std::string& file,
                 int64_t least = 1) {
  const auto found = json.find(key);
  const int64_t value =
      found == json.end() || found->is_null() ? fallback : value_or<int64_t>(json, key, fallback, file);
  if (value < least || value > kMostPositions)
    fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected {} to {}; {}", file, key, value, least,
         kMostPositions, kTakeSavedConfig);
  return value;
}

/// 0: there is none.
int64_t window_of(const nlohmann::json& json, const DecoderFamily& family, const std::string& file) {
  const auto found = json.find("sliding_window");
  const bool reads = family.all_local || family.global_every > 0 ||
                     (family.windows_by_flag && value_or<bool>(json, "use_sliding_window", false, file));
  const bool none = !reads || found == json.end() || found->is_null();
  return none ? 0 : count_of(json, "sliding_window", 2, file, 2);
}

std::vector<bool> local_layers(const nlohmann::json& json, const DecoderFamily& family, const ModelConfig& c,
                               int64_t window) {
  std::vector<bool> local;
  if (const auto types = json.find("layer_types"); types != json.end() && !types->is_null()) {
    for (const std::string& type : value_or<std::vector<std::string>>(json, "layer_types", {}, c.file)) {
      if (type != "sliding_attention" && type != "full_attention")
        fail(ErrorCode::kUnsupported,
             "{}: \"layer_types\" has \"{}\", expected \"full_attention\" or \"sliding_attention\": Lathe "
             "has no "
             "other; take a model of these",
             c.file, type);
      local.push_back(type == "sliding_attention" && window > 0);
    }
    if (std::ssize(local) != c.num_hidden_layers)
      fail(ErrorCode::kInvalidData, "{}: \"layer_types\" names {} layers, expected {}; {}", c.file,
           local.size(), c.num_hidden_layers, kTakeSavedConfig);
    return local;
  }
  const int64_t every =
      family.global_every == 0 ? 0 : count_of(json, "sliding_window_pattern", family.global_every, c.file);
  const int64_t from =
      family.windows_by_flag ? value_or<int64_t>(json, "max_window_layers", c.num_hidden_layers, c.file) : 0;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    local.push_back(window > 0 && (every > 0 ? (i + 1) % every != 0 : i >= from));
  return local;
}

void check_supported(const nlohmann::json& json, const ModelConfig& c) {
  const auto absent = [&](const char* key) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return;
    fail(ErrorCode::kUnsupported,
         "{}: \"{}\" is {}, expected null: Lathe does not bound scores; take a model "
         "without it",
         c.file, key, found->dump());
  };
  absent("attn_logit_softcapping");
  absent("final_logit_softcapping");
  if (value_or<bool>(json, "use_bidirectional_attention", false, c.file))
    fail(ErrorCode::kUnsupported,
         "{}: \"use_bidirectional_attention\" is true, expected false: Lathe's decoders see only what comes "
         "before; "
         "take a model that does",
         c.file);
  const double share = value_or<double>(json, "partial_rotary_factor", 1, c.file);
  if (share != 1)
    fail(ErrorCode::kUnsupported,
         "{}: \"partial_rotary_factor\" is {}, expected 1: Lathe turns whole heads; take "
         "a model that does",
         c.file, share);
}

void check_heads(const DecoderConfig& d, const ModelConfig& c) {
  if (c.num_attention_heads % d.kv_heads != 0)
    fail(ErrorCode::kInvalidData,
         "{}: \"num_key_value_heads\" is {}, expected a divisor of \"num_attention_heads\", {}; {}", c.file,
         d.kv_heads, c.num_attention_heads, kTakeSavedConfig);
  if (d.head_width % 2 != 0)
    fail(ErrorCode::kInvalidData, "{}: heads of {} columns, expected an even number: their halves turn; {}",
         c.file, d.head_width, kTakeSavedConfig);
  if (d.head_width > kWidestHead)
    fail(ErrorCode::kUnsupported,
         "{}: heads of {} columns, expected at most {}; take a model with more heads", c.file, d.head_width,
         kWidestHead);
}

}  // namespace

DecoderConfig parse_decoder_config(const nlohmann::json& json, const ModelConfig& c) {
  const DecoderFamily& family = *family_of(c.model_type, c.file).decoder;
  check_supported(json, c);
  DecoderConfig d;
  d.kv_heads = count_of(json, "num_key_value_heads", c.num_attention_heads, c.file);
  if (!json.contains("head_dim") && c.hidden_size % c.num_attention_heads != 0)
    fail(ErrorCode::kInvalidData,
         "{}: \"hidden_size\" is {}, expected a multiple of \"num_attention_heads\", {}, or "
         "\"head_dim\", too; {}",
         c.file, c.hidden_size, c.num_attention_heads, kTakeSavedConfig);
  d.head_width =
      count_of(json, "head_dim", std::max<int64_t>(c.hidden_size / c.num_attention_heads, 1), c.file);
  check_heads(d, c);
  d.window = window_of(json, family, c.file);
  d.local = local_layers(json, family, c, d.window);
  const bool gemma = family.global_every > 0;
  d.rope = parse_rope(json, "full_attention", gemma ? 1e6 : 10000, c.max_position_embeddings, c.file);
  d.local_rope = parse_rope(json, "sliding_attention", d.rope.theta, c.max_position_embeddings, c.file);
  if (const auto theta = json.find("rope_local_base_freq"); theta != json.end() && !theta->is_null()) {
    d.local_rope = RopeConfig{.theta = value_or<double>(json, "rope_local_base_freq", 10000, c.file)};
    if (!(d.local_rope.theta > 1))
      fail(ErrorCode::kInvalidData, "{}: \"rope_local_base_freq\" is {}, expected a number above 1", c.file,
           d.local_rope.theta);
  }
  d.tied = value_or<bool>(json, "tie_word_embeddings", gemma, c.file);
  const bool biases = value_or<bool>(json, "attention_bias", false, c.file);
  d.query_bias = family.query_biases || biases;
  d.output_bias = !family.query_biases && biases;
  d.mlp_bias = value_or<bool>(json, "mlp_bias", false, c.file);
  const auto scalar = json.find("query_pre_attn_scalar");
  if (scalar != json.end() && !scalar->is_null()) {
    const double value = value_or<double>(json, "query_pre_attn_scalar", 0, c.file);
    if (!(value > 0))
      fail(ErrorCode::kInvalidData, "{}: \"query_pre_attn_scalar\" is {}, expected a number above 0; {}",
           c.file, value, kTakeSavedConfig);
    d.query_scale = 1 / std::sqrt(value);
  }
  return d;
}

void put_decoder_config(nlohmann::json& json, const DecoderConfig& config, const DecoderConfig& there) {
  const auto put = [&](const char* key, const auto& value, const auto& read) {
    if (value != read) json[key] = value;
  };
  put("num_key_value_heads", config.kv_heads, there.kv_heads);
  put("head_dim", config.head_width, there.head_width);
  put("tie_word_embeddings", config.tied, there.tied);
  put("attention_bias", config.query_bias, there.query_bias);
  put("mlp_bias", config.mlp_bias, there.mlp_bias);
  if (config.query_scale != there.query_scale)
    json["query_pre_attn_scalar"] = 1 / (config.query_scale * config.query_scale);
  if (config.window != there.window || config.local != there.local) {
    json["sliding_window"] = config.window == 0 ? nlohmann::json() : nlohmann::json(config.window);
    if (config.window > 0) json["use_sliding_window"] = true;
    json["layer_types"] = nlohmann::json::array();
    for (const bool local : config.local)
      json["layer_types"].push_back(local ? "sliding_attention" : "full_attention");
  }
  if (config.rope == there.rope && config.local_rope == there.local_rope) return;
  for (const char* key : {"rope_theta", "rope_scaling", "rope_local_base_freq"}) json.erase(key);
  json["rope_parameters"] = {{"full_attention", rope_to_write(config.rope)},
                             {"sliding_attention", rope_to_write(config.local_rope)}};
}

}  // namespace lathe
