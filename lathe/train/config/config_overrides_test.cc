#include "lathe/train/config/config_overrides.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"

namespace lathe {
namespace {

using nlohmann::json;

ModelConfig bert() {
  return parse_model_config(json{{"model_type", "bert"},
                                 {"hidden_dropout_prob", 0.1},
                                 {"classifier_dropout", nullptr},
                                 {"use_cache", true},
                                 {"note", "a"},
                                 {"id2label", {{"0", "x"}, {"1", "y"}}}},
                            "config.json");
}

std::string message_of(const std::string& overrides) {
  try {
    (void)with_overrides(bert(), overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(ConfigOverrides, HaveTheTypeOfWhatTheyReplace) {
  const ModelConfig config = with_overrides(
      bert(), "hidden_dropout_prob=0,classifier_dropout=0.5,use_cache=no,note=b c,num_hidden_layers=3");
  EXPECT_EQ(config.hidden_dropout_prob, 0);
  EXPECT_EQ(config.classifier_dropout, 0.5);
  EXPECT_EQ(config.num_hidden_layers, 3);
  const json saved = config_to_write(config, "BertForSequenceClassification", {"x", "y"}, "");
  EXPECT_EQ(saved["hidden_dropout_prob"].dump(), "0.0");  // as transformers writes a float
  EXPECT_EQ(saved["classifier_dropout"], 0.5);
  EXPECT_EQ(saved["use_cache"], false);
  EXPECT_EQ(saved["note"], "b c");
  EXPECT_EQ(saved["num_hidden_layers"].dump(), "3");
}

TEST(ConfigOverrides, OfNothingChangeNothing) { EXPECT_EQ(*with_overrides(bert(), "").json, *bert().json); }

TEST(ConfigOverrides, AnUnknownKeyNamesThoseLikeIt) {
  EXPECT_EQ(
      message_of("hidden_dropout_probs=0"),
      "--config_overrides: found 'hidden_dropout_probs', which is no setting of this model; did you mean "
      "hidden_dropout_prob?");
  EXPECT_NE(message_of("xyzzy=1").find("there are attention_probs_dropout_prob, "), std::string::npos);
  EXPECT_NE(message_of("model_type=roberta").find("no setting"), std::string::npos);
  EXPECT_NE(message_of("id2label=1").find("no setting"), std::string::npos);
}

TEST(ConfigOverrides, AWrongValueSaysWhatIsWanted) {
  EXPECT_EQ(message_of("hidden_dropout_prob=none"),
            "--config_overrides: hidden_dropout_prob: found 'none', expected a number; it is 0.1 now");
  EXPECT_NE(message_of("num_hidden_layers=2.5").find("expected a whole number"), std::string::npos);
  EXPECT_NE(message_of("use_cache=maybe").find("expected true or false"), std::string::npos);
  EXPECT_NE(message_of("use_cache").find("expected key=value"), std::string::npos);
  EXPECT_TRUE(message_of("hidden_dropout_prob=2").starts_with("--config_overrides hidden_dropout_prob=2: "));
}

TEST(ConfigOverrides, ReachModernBert) {
  const ModelConfig config = parse_model_config(json{{"model_type", "modernbert"}}, "config.json");
  EXPECT_TRUE(with_overrides(config, "classifier_pooling=mean").modern.mean_pooling);
  EXPECT_TRUE(with_overrides(config, "norm_bias=true").modern.norm_bias);
}

}  // namespace
}  // namespace lathe
