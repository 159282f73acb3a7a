#include "lathe/models/decoders/rope.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// Radians per position of each pair of columns, without scaling.
std::vector<double> plain_frequencies(double theta, int64_t width) {
  std::vector<double> all;
  for (int64_t i = 0; i < width; i += 2)
    all.push_back(1 / std::pow(theta, static_cast<double>(i) / static_cast<double>(width)));
  return all;
}

/// Long waves are stretched, short ones stay, those between are mixed.
void scale_as_llama3(std::vector<double>& frequencies, const RopeConfig& rope) {
  const double longest = rope.original_positions / rope.low_factor;
  const double shortest = rope.original_positions / rope.high_factor;
  for (double& frequency : frequencies) {
    const double wave = kTurn / frequency;
    if (wave < shortest) continue;
    if (wave > longest) {
      frequency /= rope.factor;
      continue;
    }
    const double share =
        (rope.original_positions / wave - rope.low_factor) / (rope.high_factor - rope.low_factor);
    frequency = (1 - share) * frequency / rope.factor + share * frequency;
  }
}

/// The pair of columns that turns so often over all positions.
double dimension_of_turns(double turns, double width, const RopeConfig& rope) {
  return width * std::log(rope.original_positions / (turns * kTurn)) / (2 * std::log(rope.theta));
}

void scale_as_yarn(std::vector<double>& frequencies, const RopeConfig& rope) {
  const auto width = static_cast<double>(2 * frequencies.size());
  double low = dimension_of_turns(rope.beta_fast, width, rope);
  double high = dimension_of_turns(rope.beta_slow, width, rope);
  if (rope.truncated) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / rope.factor + (1 - stretched);
  }
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

double attention_factor_of(const RopeConfig& rope) {
  if (rope.type != "yarn") return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dimensions != 0)
    return yarn_magnitude(rope.factor, rope.mscale) / yarn_magnitude(rope.factor, rope.mscale_all_dimensions);
  return yarn_magnitude(rope.factor, 1);
}

/// The object that says it, and where it stands, for messages; null: none does.
struct RopeObject {
  const nlohmann::json* json = nullptr;
  std::string name;
};

RopeObject find_object(const nlohmann::json& json, const std::string& layer_type, const std::string& file) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_object())
      fail(ErrorCode::kInvalidData, "{}: \"{}\" is {}, expected an object or null", file, key, found->dump());
    if (const auto own = found->find(layer_type); !layer_type.empty() && own != found->end()) {
      if (!own->is_object())
        fail(ErrorCode::kInvalidData, "{}: \"{}\" of \"{}\" is {}, expected an object", file, layer_type, key,
             own->dump());
      return {&*own, std::string(key) + "\": \"" + layer_type};
    }
    return {&*found, key};
  }
  return {};
}

class RopeReader {
 public:
  RopeReader(const RopeObject& from, const std::string& file) : from_(from), file_(file) {}

  void above_zero(double& value, const char* key) {
    value = value_or<double>(*from_.json, key, value, file_);
    if (!(value > 0) || !std::isfinite(value))
      fail(ErrorCode::kInvalidData, "{}: \"{}\": \"{}\" is {}, expected a number above 0", file_, from_.name,
           key, value);
  }
  void number(double& value, const char* key) {
    value = value_or<double>(*from_.json, key, value, file_);
    if (!std::isfinite(value) || value < 0)
      fail(ErrorCode::kInvalidData, "{}: \"{}\": \"{}\" is {}, expected 0 or more", file_, from_.name, key,
           value);
  }

 private:
  const RopeObject& from_;
  const std::string& file_;
};

}  // namespace

RopeTable rope_table(const RopeConfig& rope, int64_t width) {
  std::vector<double> frequencies = plain_frequencies(rope.theta, width);
  if (rope.type == "linear")
    for (double& frequency : frequencies) frequency /= rope.factor;
  if (rope.type == "llama3") scale_as_llama3(frequencies, rope);
  if (rope.type == "yarn") scale_as_yarn(frequencies, rope);
  return {{frequencies.begin(), frequencies.end()}, attention_factor_of(rope)};
}

RopeConfig parse_rope(const nlohmann::json& json, const std::string& layer_type, double theta,
                      int64_t positions, const std::string& file) {
  RopeConfig rope;
  rope.theta = value_or<double>(json, "rope_theta", theta, file);
  const RopeObject from = find_object(json, layer_type, file);
  if (from.json != nullptr) {
    RopeReader reader(from, file);
    rope.type = value_or<std::string>(*from.json, "type", rope.type, file);
    rope.type = value_or<std::string>(*from.json, "rope_type", rope.type, file);
    if (rope.type != "default" && rope.type != "linear" && rope.type != "llama3" && rope.type != "yarn")
      fail(ErrorCode::kUnsupported,
           "{}: \"{}\": \"rope_type\" is \"{}\", expected default, linear, llama3 or yarn: Lathe stretches "
           "positions in no other way so far; take a model that has one of them",
           file, from.name, rope.type);
    reader.above_zero(rope.theta, "rope_theta");
    const bool stretched_by_length = rope.type == "llama3" || rope.type == "yarn";
    rope.original_positions = static_cast<double>(positions);
    rope.original_positions =
        value_or<double>(json, "original_max_position_embeddings", rope.original_positions, file);
    if (stretched_by_length) reader.above_zero(rope.original_positions, "original_max_position_embeddings");
    const auto factor = from.json->find("factor");
    if (rope.type == "yarn" && (factor == from.json->end() || factor->is_null()))
      rope.factor = static_cast<double>(positions) / rope.original_positions;
    else if (rope.type != "default")
      reader.above_zero(rope.factor, "factor");
    if (rope.type == "llama3") {
      reader.above_zero(rope.low_factor, "low_freq_factor");
      reader.above_zero(rope.high_factor, "high_freq_factor");
      if (rope.high_factor <= rope.low_factor)
        fail(ErrorCode::kInvalidData,
             "{}: \"{}\": \"high_freq_factor\" is {}, expected more than \"low_freq_factor\", {}", file,
             from.name, rope.high_factor, rope.low_factor);
    }
    if (rope.type == "yarn") {
      reader.above_zero(rope.beta_fast, "beta_fast");
      reader.above_zero(rope.beta_slow, "beta_slow");
      reader.number(rope.attention_factor, "attention_factor");
      reader.number(rope.mscale, "mscale");
      reader.number(rope.mscale_all_dimensions, "mscale_all_dim");
      rope.truncated = value_or<bool>(*from.json, "truncate", true, file);
    }
    if (!stretched_by_length) rope.original_positions = 0;
  }
  if (!(rope.theta > 1) || !std::isfinite(rope.theta))
    fail(ErrorCode::kInvalidData, "{}: \"rope_theta\" is {}, expected a number above 1", file, rope.theta);
  return rope;
}

nlohmann::json rope_to_write(const RopeConfig& rope) {
  nlohmann::json json = {{"rope_type", rope.type}, {"rope_theta", rope.theta}};
  if (rope.type != "default") json["factor"] = rope.factor;
  if (rope.original_positions > 0) json["original_max_position_embeddings"] = rope.original_positions;
  if (rope.type == "llama3") {
    json["low_freq_factor"] = rope.low_factor;
    json["high_freq_factor"] = rope.high_factor;
  }
  if (rope.type != "yarn") return json;
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  json["truncate"] = rope.truncated;
  const auto put = [&](const char* key, double value) {
    if (value != 0) json[key] = value;
  };
  put("attention_factor", rope.attention_factor);
  put("mscale", rope.mscale);
  put("mscale_all_dim", rope.mscale_all_dimensions);
  return json;
}

}  // namespace lathe
