#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/models/model_config.h"

namespace lathe::decoder_config_test {
namespace {

nlohmann::json tiny(const char* type, const nlohmann::json& more = {}) {
  nlohmann::json json = {{"model_type", type},       {"vocab_size", 48},
                         {"hidden_size", 16},        {"num_hidden_layers", 6},
                         {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                         {"intermediate_size", 24},  {"max_position_embeddings", 64}};
  if (more.is_object()) json.update(more);
  return json;
}

ModelConfig parsed(const char* type, const nlohmann::json& more = {}) {
  return parse_model_config(tiny(type, more), "config.json");
}

TEST(DecoderConfig, WhatAFileLeavesOutIsAsInTransformers) {
  const ModelConfig llama = parsed("llama");
  EXPECT_EQ(llama.decoder.head_width, 4);
  EXPECT_EQ(llama.decoder.kv_heads, 2);
  EXPECT_EQ(llama.hidden_act, "silu");
  EXPECT_EQ(llama.pad_token_id, -1);
  EXPECT_FALSE(llama.decoder.tied || llama.decoder.query_bias || llama.decoder.output_bias);
  EXPECT_TRUE(parsed("qwen2").decoder.query_bias);
  EXPECT_FALSE(parsed("qwen2").decoder.output_bias);
  EXPECT_TRUE(parsed("llama", {{"attention_bias", true}}).decoder.output_bias);
  const ModelConfig gemma = parsed("gemma3_text", {{"query_pre_attn_scalar", 16}, {"sliding_window", 8}});
  EXPECT_TRUE(gemma.decoder.tied);
  EXPECT_EQ(gemma.decoder.query_scale, 0.25);
  EXPECT_EQ(gemma.decoder.rope.theta, 1e6);
}

TEST(DecoderConfig, LayersWithAWindow) {
  using Layers = std::vector<bool>;
  EXPECT_EQ(parsed("llama", {{"sliding_window", 4}}).decoder.local, Layers(6, false));  // its class has none
  EXPECT_EQ(parsed("mistral", {{"sliding_window", 4}}).decoder.local, Layers(6, true));
  EXPECT_EQ(parsed("mistral", {{"sliding_window", nullptr}}).decoder.local, Layers(6, false));
  EXPECT_EQ(parsed("gemma3_text", {{"sliding_window", 4}}).decoder.local,
            Layers({true, true, true, true, true, false}));
  EXPECT_EQ(parsed("gemma3_text", {{"sliding_window", 4}, {"sliding_window_pattern", 2}}).decoder.local,
            Layers({true, false, true, false, true, false}));
  EXPECT_EQ(parsed("qwen2", {{"sliding_window", 4}, {"max_window_layers", 4}}).decoder.local,
            Layers(6, false));
  const nlohmann::json used = {{"sliding_window", 4}, {"max_window_layers", 4}, {"use_sliding_window", true}};
  EXPECT_EQ(parsed("qwen2", used).decoder.local, Layers({false, false, false, false, true, true}));
}

TEST(DecoderConfig, OldAndNewFilesOfOneModelSayTheSame) {
  const nlohmann::json old_file = {{"rope_theta", 1e6},
                                   {"rope_local_base_freq", 1e4},
                                   {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}},
                                   {"sliding_window", 4}};
  const nlohmann::json full = {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}};
  const nlohmann::json new_file = {
      {"rope_parameters", {{"full_attention", full}, {"sliding_attention", {{"rope_theta", 1e4}}}}},
      {"sliding_window", 4}};
  const ModelConfig a = parsed("gemma3_text", old_file), b = parsed("gemma3_text", new_file);
  EXPECT_EQ(a.decoder.rope, b.decoder.rope);
  EXPECT_EQ(a.decoder.local_rope, b.decoder.local_rope);
  EXPECT_EQ(used_settings(a), used_settings(b));
  EXPECT_NE(used_settings(a), used_settings(parsed("gemma3_text", {{"sliding_window", 4}})));
}

TEST(DecoderConfig, WhatIsWrittenIsReadAgain) {
  ModelConfig config = parsed("qwen3", {{"head_dim", 6}});
  config.decoder.window = 4;
  config.decoder.local = {true, false, true, false, true, false};
  config.decoder.rope = {.type = "yarn", .theta = 5e5, .factor = 4, .original_positions = 32};
  config.decoder.local_rope = config.decoder.rope;
  config.decoder.tied = true;
  const ModelConfig again = parse_model_config(config_to_write(config, "Qwen3ForCausalLM", {}, ""), "again");
  EXPECT_EQ(again.decoder.local, config.decoder.local);
  EXPECT_EQ(again.decoder.window, 4);
  EXPECT_EQ(again.decoder.rope, config.decoder.rope);
  EXPECT_TRUE(again.decoder.tied);
  EXPECT_EQ(again.decoder.head_width, 6);
}

TEST(DecoderConfig, WhatLatheLacksIsRefusedByName) {
  const auto error_of = [](const char* type, const nlohmann::json& more) -> std::string {
    try {
      parsed(type, more);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::tuple<const char*, nlohmann::json, const char*> cases[] = {
      {"llama", {{"num_key_value_heads", 3}}, "expected a divisor of \"num_attention_heads\", 4"},
      {"llama", {{"num_key_value_heads", 0}}, "\"num_key_value_heads\" is 0, expected 1 to"},
      {"llama", {{"head_dim", 5}}, "expected an even number"},
      {"llama", {{"head_dim", 512}}, "heads of 512 columns, expected at most 256"},
      {"llama", {{"hidden_size", 18}}, "expected a multiple of \"num_attention_heads\", 4"},
      {"llama", {{"hidden_act", "relu"}}, "expected silu, gelu or gelu_pytorch_tanh"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "Lathe turns whole heads"},
      {"gemma3_text", {{"final_logit_softcapping", 30.0}}, "Lathe does not bound scores"},
      {"gemma3_text", {{"use_bidirectional_attention", true}}, "see only what comes before"},
      {"gemma3_text", {{"query_pre_attn_scalar", -1}}, "expected a number above 0"},
      {"mistral", {{"sliding_window", 1}}, "\"sliding_window\" is 1, expected 2 to"},
      {"qwen3", {{"layer_types", {"full_attention"}}}, "names 1 layers, expected 6"},
  };
  for (const auto& [type, more, message] : cases)
    EXPECT_NE(error_of(type, more).find(message), std::string::npos) << message << "\n"
                                                                     << error_of(type, more);
}

}  // namespace
}  // namespace lathe::decoder_config_test
