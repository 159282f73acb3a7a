#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/models/model_config.h"

namespace lathe {
namespace {

nlohmann::json config() {
  return {{"model_type", "modernbert"},
          {"hidden_size", 16},
          {"num_attention_heads", 2},
          {"num_hidden_layers", 4},
          {"vocab_size", 48}};
}

std::string error_of(const std::string& key, const nlohmann::json& value) {
  nlohmann::json json = config();
  json[key] = value;
  try {
    parse_model_config(json, "config.json");
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ModernBertConfig, KeysOfVersionFourMeanWhatThoseOfVersionFiveMean) {
  nlohmann::json old = config(), now = config();
  old["global_attn_every_n_layers"] = 2;
  old["global_rope_theta"] = 5e4;
  old["local_rope_theta"] = 3e3;
  now["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  now["rope_parameters"] = {{"full_attention", {{"rope_theta", 5e4}, {"rope_type", "default"}}},
                            {"sliding_attention", {{"rope_theta", 3e3}}}};
  for (const nlohmann::json& json : {old, now}) {
    const ModernBertConfig m = parse_model_config(json, "config.json").modern;
    EXPECT_EQ(m.local, std::vector<bool>({false, true, false, true}));
    EXPECT_EQ(m.global_theta, 5e4);
    EXPECT_EQ(m.local_theta, 3e3);
  }
}

/// Version 4: the global base; version 5's own key holds over it.
TEST(ModernBertConfig, ALocalThetaOfNullIsTheGlobalOne) {
  nlohmann::json json = config();
  const auto thetas = [&] {
    const ModernBertConfig m = parse_model_config(json, "config.json").modern;
    return std::pair(m.global_theta, m.local_theta);
  };
  json["global_rope_theta"] = 8e4;
  EXPECT_EQ(thetas(), std::pair(8e4, 1e4));
  json["local_rope_theta"] = nullptr;
  EXPECT_EQ(thetas(), std::pair(8e4, 8e4));
  json.erase("global_rope_theta");
  EXPECT_EQ(thetas(), std::pair(16e4, 16e4));
  json["rope_parameters"] = {{"full_attention", {{"rope_theta", 5e4}}},
                             {"sliding_attention", {{"rope_theta", 3e3}}}};
  EXPECT_EQ(thetas(), std::pair(5e4, 3e3));
  json["rope_parameters"] = nullptr;
  json.erase("local_rope_theta");
  EXPECT_EQ(thetas(), std::pair(16e4, 1e4));
}

TEST(ModernBertConfig, DefaultsAreThoseOfTransformers) {
  const ModelConfig c = parse_model_config(config(), "config.json");
  EXPECT_EQ(c.modern.local, std::vector<bool>({false, true, true, false}));
  EXPECT_EQ(c.modern.window, 64);
  EXPECT_EQ(c.modern.global_theta, 160000);
  EXPECT_EQ(c.modern.local_theta, 10000);
  EXPECT_EQ(c.intermediate_size, 1152);
  EXPECT_EQ(c.max_position_embeddings, 8192);
  EXPECT_EQ(c.layer_norm_eps, 1e-5);
  EXPECT_EQ(c.hidden_dropout_prob + c.attention_probs_dropout_prob + c.mlp_dropout + c.classifier_dropout, 0);
  EXPECT_FALSE(c.modern.norm_bias || c.modern.attention_bias || c.modern.mlp_bias || c.modern.mean_pooling);
}

TEST(ModernBertConfig, SaysWhatItCannotCompute) {
  const auto says = [](const std::string& key, const nlohmann::json& value, const std::string& words) {
    const std::string found = error_of(key, value);
    EXPECT_NE(found.find(words), std::string::npos) << found;
    EXPECT_NE(found.find("config.json"), std::string::npos) << found;
  };
  says("hidden_activation", "relu", "expected gelu");
  says("layer_types", {"full_attention"}, "names 1 layers, expected 4");
  says("layer_types", {"x", "x", "x", "x"}, "\"full_attention\" or \"sliding_attention\"");
  says("rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}, "expected \"default\"");
  says("rope_scaling", {{"factor", 2}}, "expected none");
  says("local_attention", 1, "expected 2 to 100000000");
  says("local_attention", int64_t{1} << 62, "expected 2 to 100000000");
  says("global_attn_every_n_layers", 0, "expected 1 or more");
  says("global_rope_theta", -1, "expected a number above 0");
  for (const double factor : {0.4, 0.0, -1.0})
    says("initializer_cutoff_factor", factor, "expected 0.5 or more");
  says("classifier_pooling", "max", "expected cls or mean");
  says("mlp_dropout", 1.5, "expected a probability");
  says("num_attention_heads", 16, "an even one");
}

}  // namespace
}  // namespace lathe
