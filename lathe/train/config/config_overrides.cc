#include "lathe/train/config/config_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/models/family.h"
#include "lathe/settings/argument_parser.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

/// All keys that can be set, with their values now: those of config.json, and of those that files may leave
/// out the family's.
json all_settings(const ModelConfig& config) {
  json all = used_settings(config);
  all["initializer_range"] = config.initializer_range;
  const Family& family = family_of(config.model_type, config.file);
  if (family.keys.qa_dropout != nullptr) all[family.keys.qa_dropout] = config.qa_dropout;
  if (family.modern) {
    const ModernBertConfig& m = config.modern;
    all.update({{"norm_bias", m.norm_bias},
                {"attention_bias", m.attention_bias},
                {"mlp_bias", m.mlp_bias},
                {"classifier_bias", m.classifier_bias},
                {"decoder_bias", m.decoder_bias},
                {"local_attention", 2 * m.window},
                {"classifier_activation", m.classifier_activation},
                {"classifier_pooling", m.mean_pooling ? "mean" : "cls"}});
  }
  for (const auto& [key, value] : config.json->items())
    if (!all.contains(key) && value.is_primitive() && !value.is_null()) all[key] = value;
  all.erase("model_type");  // another family is another model
  return all;
}

[[noreturn]] void refuse_key(const std::string& key, const json& settings) {
  std::vector<std::string_view> names;
  for (auto it = settings.begin(); it != settings.end(); ++it) names.emplace_back(it.key());
  const auto near = nearest_names(key, names);
  fail(ErrorCode::kUsage, "--config_overrides: found '{}', which is no setting of this model; {}", key,
       near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                    : fmt::format("did you mean {}?", fmt::join(near, " or ")));
}

std::optional<bool> bool_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text == "true" || text == "1" || text == "y" || text == "yes") return true;
  if (text == "false" || text == "0" || text == "n" || text == "no") return false;
  return {};
}

json value_of(const std::string& key, const std::string& text, const json& before) {
  const auto refuse = [&](const char* wanted) {
    fail(ErrorCode::kUsage, "--config_overrides: {}: found '{}', expected {}; it is {} now", key, text,
         wanted, before.dump());
  };
  if (before.is_boolean()) {
    const auto flag = bool_of(text);
    if (!flag) refuse("true or false");
    return *flag;
  }
  if (before.is_number_integer()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse("a whole number");
    return number;
  }
  if (before.is_number()) {
    const auto number = parse_double(text);
    if (!number) refuse("a number");
    return *number;
  }
  return text;
}

}  // namespace

ModelConfig with_overrides(const ModelConfig& config, const std::string& overrides) {
  if (overrides.empty()) return config;
  const json settings = all_settings(config);
  json changed = *config.json;
  std::istringstream parts(overrides);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || part.find('=', equals + 1) != std::string::npos)
      fail(ErrorCode::kUsage,
           "--config_overrides: found '{}', expected key=value, several separated by commas", part);
    const std::string key = part.substr(0, equals);
    if (!settings.contains(key)) refuse_key(key, settings);
    changed[key] = value_of(key, part.substr(equals + 1), settings[key]);
  }
  try {
    return parse_model_config(changed, config.file);
  } catch (const Error& error) {
    fail(ErrorCode::kUsage, "--config_overrides {}: {}", overrides, error.what());
  }
}

}  // namespace lathe
