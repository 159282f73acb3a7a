#include "lathe/models/sentence/sentence_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

using nlohmann::json;

struct PoolingNames {
  PoolingMode mode;
  const char *name, *old_key;
};

// In the order in which the old keys' vectors stand.
constexpr std::array<PoolingNames, 6> kPoolings = {{
    {PoolingMode::kCls, "cls", "pooling_mode_cls_token"},
    {PoolingMode::kMax, "max", "pooling_mode_max_tokens"},
    {PoolingMode::kMean, "mean", "pooling_mode_mean_tokens"},
    {PoolingMode::kMeanSqrtLength, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {PoolingMode::kWeightedMean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {PoolingMode::kLastToken, "lasttoken", "pooling_mode_lasttoken"},
}};

[[noreturn]] void refuse_pooling(const std::string& found, const std::string& file) {
  fail(ErrorCode::kUnsupported,
       "{}: found {}: Lathe knows cls, max, mean, mean_sqrt_len_tokens, weightedmean and lasttoken", file,
       found);
}

PoolingMode pooling_named(const std::string& name, const std::string& file) {
  for (const PoolingNames& names : kPoolings)
    if (name == names.name) return names.mode;
  refuse_pooling(fmt::format("\"pooling_mode\": \"{}\"", name), file);
}

/// Old keys: a flag for each mode.  None set: the mean, as there.
std::vector<PoolingMode> flagged_modes(const json& config, const std::string& file) {
  const auto is_known = [](const std::string& key) {
    return std::ranges::any_of(kPoolings, [&](const PoolingNames& names) { return key == names.old_key; });
  };
  for (const auto& [key, value] : config.items())
    if (key.starts_with("pooling_mode_") && value == true && !is_known(key))
      refuse_pooling(fmt::format("\"{}\"", key), file);
  std::vector<PoolingMode> out;
  for (const PoolingNames& names : kPoolings)
    if (value_or<bool>(config, names.old_key, false, file)) out.push_back(names.mode);
  return out.empty() ? std::vector{PoolingMode::kMean} : out;
}

}  // namespace

const char* name_of(PoolingMode mode) { return kPoolings[static_cast<size_t>(mode)].name; }
const char* old_key_of(PoolingMode mode) { return kPoolings[static_cast<size_t>(mode)].old_key; }

std::vector<PoolingMode> pooling_modes_of(const json& config, const std::string& file) {
  std::vector<PoolingMode> out;
  const json mode = value_or<json>(config, "pooling_mode", nullptr, file);
  if (mode.is_string()) return {pooling_named(mode.get<std::string>(), file)};
  if (!mode.is_null()) {
    for (const std::string& name : required<std::vector<std::string>>(config, "pooling_mode", file))
      out.push_back(pooling_named(name, file));
    if (out.empty()) fail(ErrorCode::kInvalidData, "{}: \"pooling_mode\": found no name", file);
    return out;
  }
  return flagged_modes(config, file);
}

std::map<std::string, std::string> prompts_of(const json& config, const std::string& file,
                                              std::optional<std::string>& default_name) {
  std::map<std::string, std::string> out;
  const json prompts = value_or<json>(config, "prompts", json::object(), file);
  if (!prompts.is_object())
    fail(ErrorCode::kInvalidData, "{}: \"prompts\": expected an object, name: prompt", file);
  for (const auto& [name, prompt] : prompts.items())
    if (!prompt.is_null()) out[name] = required<std::string>(prompts, name, file);
  const auto name = value_or<std::string>(config, "default_prompt_name", "", file);
  if (name.empty()) return out;
  if (!out.contains(name))
    fail(ErrorCode::kInvalidData, "{}: \"default_prompt_name\": found \"{}\", which is none of its prompts",
         file, name);
  default_name = name;
  return out;
}

std::vector<float> floats_of(const TensorView& view, const Shape& shape, const std::string& what) {
  if (view.shape != shape)
    fail(ErrorCode::kInvalidData, "{}: found shape {}, expected {}", what, to_string(view.shape),
         to_string(shape));
  if (const auto bad = find_non_finite(view))
    fail(ErrorCode::kInvalidData, "{}: number {} is not finite", what, *bad);
  std::vector<float> out(static_cast<size_t>(elements(shape)));
  to_f32(view, out.data());
  return out;
}

}  // namespace lathe
