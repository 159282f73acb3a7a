#include "lathe/train/auto_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"

namespace lathe {
namespace {

ModelConfig tiny() {
  ModelConfig config;
  config.vocab_size = 40, config.hidden_size = 32, config.num_hidden_layers = 1;
  config.num_attention_heads = 2, config.intermediate_size = 32, config.max_position_embeddings = 32;
  return config;
}

std::string error_of(const ModelConfig& config, ErrorCode code) {
  try {
    from_config(config, {single_label, {"a", "b"}}, std::nullopt);
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
}

TEST(AutoModel, OfAConfigurationThatAFileMayNotHaveIsRefused) {
  ModelConfig config = tiny();
  EXPECT_EQ(error_of(config, ErrorCode::kInvalidData), "no error");
  for (const char* act : {"nonsense", "swish"}) {
    config.hidden_act = act;
    EXPECT_NE(error_of(config, ErrorCode::kUnsupported).find("expected gelu, gelu_python, relu or tanh"),
              std::string::npos);
  }
  for (const int64_t heads : {3, 0, -1}) {
    config = tiny();
    config.num_attention_heads = heads;
    EXPECT_NE(error_of(config, ErrorCode::kInvalidData).find("\"num_attention_heads\""), std::string::npos);
  }
  config = tiny();
  config.hidden_dropout_prob = 1.5;
  EXPECT_NE(error_of(config, ErrorCode::kInvalidData).find("expected a probability"), std::string::npos);
}

TEST(AutoModel, ASavedModelThatNamesNoArchitectureClassifies) {
  ModelConfig config = tiny();
  for (const nlohmann::json& none : {nlohmann::json(nullptr), nlohmann::json::array()}) {
    nlohmann::json json = {{"architectures", none}};
    config.json = std::make_shared<const nlohmann::json>(json);
    EXPECT_EQ(saved_task(config), single_label);
    json["num_labels"] = 1;
    config.json = std::make_shared<const nlohmann::json>(json);
    EXPECT_EQ(saved_task(config), regression);
  }
  const auto task_of = [&](const char* architecture) {
    config.json = std::make_shared<const nlohmann::json>(nlohmann::json{{"architectures", {architecture}}});
    return saved_task(config);
  };
  EXPECT_EQ(task_of("BertForTokenClassification"), token_labels);
  EXPECT_THROW(task_of("BertForNextSentencePrediction"), Error);
}

}  // namespace
}  // namespace lathe
