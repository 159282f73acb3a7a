#include "lathe/models/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/models/make_model.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

using Json = nlohmann::json;

ModelConfig tiny(const std::string& type, const Json& more = Json::object()) {
  Json json = {{"model_type", type}, {"vocab_size", 48}, {"max_position_embeddings", 24}};
  json.update(type == "distilbert" ? Json{{"dim", 16}, {"n_layers", 1}, {"n_heads", 2}, {"hidden_dim", 32}}
                                   : Json{{"hidden_size", 16},
                                          {"num_hidden_layers", 1},
                                          {"num_attention_heads", 2},
                                          {"intermediate_size", 32}});
  json.update(more);
  return parse_model_config(json, "config.json");
}

template <typename F>
std::string error_of(ErrorCode code, const F& call) {
  try {
    call();
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
}

/// The message names the file, the key with what was found, and what is wanted.
void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& part : words) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ModelConfig, SizesThatNoModelHasAreRefused) {
  const struct {
    const char *type, *key;
    int64_t most;
  } sizes[] = {
      {"bert", "num_hidden_layers", 1000},        {"distilbert", "n_layers", 1000},
      {"modernbert", "num_hidden_layers", 1000},  {"bert", "hidden_size", 1'000'000},
      {"electra", "embedding_size", 1'000'000},   {"bert", "intermediate_size", 1'000'000},
      {"bert", "num_attention_heads", 1'000'000}, {"bert", "vocab_size", 100'000'000},
      {"bert", "type_vocab_size", 100'000'000},   {"roberta", "max_position_embeddings", 100'000'000}};
  for (const auto& [type, key, most] : sizes)
    for (const int64_t value : {int64_t{0}, most + 1, INT64_MAX})
      expect_words(error_of(ErrorCode::kInvalidData,
                            [&] {
                              tiny(type, {{key, value}});
                            }),
                   {"config.json", fmt::format("\"{}\" is {}, expected 1 to {};", key, value, most)});
  EXPECT_EQ(tiny("bert", {{"num_hidden_layers", 1000}, {"vocab_size", 100'000'000}}).num_hidden_layers, 1000);
  expect_words(error_of(ErrorCode::kInvalidData,
                        [] {
                          tiny("roberta", {{"pad_token_id", INT64_MAX}});
                        }),
               {"config.json: \"pad_token_id\" is"});
}

TEST(ModelConfig, ThePaddingTokenIsWrittenAsItIsRead) {
  for (const char* type : {"bert", "roberta", "modernbert"})
    for (const Json& given : {Json(3), Json(0), Json(nullptr)}) {
      if (given.is_null() && type == std::string("roberta")) continue;
      ModelConfig config = tiny(type, {{"pad_token_id", given}});
      EXPECT_EQ(config.pad_token_id, given.is_null() ? -1 : given.get<int64_t>());
      const auto written = [&] { return config_to_write(config, "X", {}, ""); };
      EXPECT_EQ(written()["pad_token_id"], given);
      Json kept = *config.json;
      kept.erase("pad_token_id");  // a configuration that a program made
      config.json = std::make_shared<const Json>(std::move(kept));
      EXPECT_EQ(parse_model_config(written(), "config.json").pad_token_id, config.pad_token_id);
    }
  expect_words(error_of(ErrorCode::kInvalidData,
                        [] {
                          tiny("roberta", {{"pad_token_id", nullptr}});
                        }),
               {"config.json: \"pad_token_id\" is null, expected 0 or more"});
}

/// A program may make a configuration, or change one that was read: what is saved has to say the same.
TEST(ModelConfig, WhatAProgramSaysIsWritten) {
  const auto again = [](const ModelConfig& config) {
    return parse_model_config(config_to_write(config, "X", {}, ""), "config.json");
  };
  for (const char* type : {"bert", "roberta", "electra", "distilbert", "modernbert"}) {
    ModelConfig config = tiny(type);
    const Json before = config_to_write(config, "X", {}, "");
    EXPECT_FALSE(before.contains("classifier_dropout") || before.contains("layer_types")) << type;
    config.classifier_dropout = 0.25;
    EXPECT_EQ(again(config).classifier_dropout, 0.25) << type;
    config.classifier_dropout = 0;
    EXPECT_EQ(again(config).classifier_dropout, 0) << type;
  }
  ModelConfig distil = tiny("distilbert");
  distil.qa_dropout = 0.25;
  EXPECT_EQ(again(distil).qa_dropout, 0.25);
  ModelConfig config = tiny("modernbert");
  ModernBertConfig& m = config.modern;
  m.local = {true};
  m.window = 4, m.global_theta = 5e4, m.local_theta = 3e3, m.initializer_cutoff_factor = 3;
  m.norm_bias = m.attention_bias = m.mlp_bias = m.classifier_bias = m.mean_pooling = true;
  m.decoder_bias = false, m.classifier_activation = "gelu_python";
  const ModernBertConfig found = again(config).modern;
  EXPECT_EQ(found.local, m.local);
  EXPECT_EQ(found.window, m.window);
  EXPECT_EQ(found.global_theta, m.global_theta);
  EXPECT_EQ(found.local_theta, m.local_theta);
  EXPECT_EQ(found.initializer_cutoff_factor, m.initializer_cutoff_factor);
  EXPECT_TRUE(found.norm_bias && found.attention_bias && found.mlp_bias && found.classifier_bias);
  EXPECT_TRUE(found.mean_pooling);
  EXPECT_FALSE(found.decoder_bias);
  EXPECT_EQ(found.classifier_activation, m.classifier_activation);
  m.local.clear();
  expect_words(error_of(ErrorCode::kInvalidData, [&] { again(config); }),
               {"\"layer_types\" names 0 layers, expected 1"});
}

/// What a run computes with, by the names that families give it in config.json.
TEST(ModelConfig, UsedSettingsAreThoseThatAModelComputesWith) {
  const std::string bert = "bert", distilbert = "distilbert", modern = "modernbert";
  for (const auto& [type, key, value] :
       std::vector<std::tuple<std::string, std::string, Json>>{{bert, "num_attention_heads", 4},
                                                               {bert, "hidden_act", "relu"},
                                                               {bert, "layer_norm_eps", 1e-5},
                                                               {bert, "hidden_dropout_prob", 0.25},
                                                               {bert, "classifier_dropout", 0.25},
                                                               {"roberta", "pad_token_id", 3},
                                                               {distilbert, "n_heads", 4},
                                                               {distilbert, "seq_classif_dropout", 0.5},
                                                               {distilbert, "qa_dropout", 0.5},
                                                               {modern, "local_attention", 8},
                                                               {modern, "classifier_pooling", "mean"},
                                                               {modern, "global_rope_theta", 5.0}})
    EXPECT_NE(used_settings(tiny(type)), used_settings(tiny(type, {{key, value}}))) << type << " " << key;
  for (const std::string& type : {bert, distilbert, modern}) {
    const ModelConfig config = tiny(type);
    EXPECT_EQ(used_settings(config),
              used_settings(tiny(type, {{"transformers_version", "1"}, {"initializer_range", 0.5}})));
    const Json written = config_to_write(config, "A", {"a", "b", "c"}, "regression");
    EXPECT_EQ(used_settings(config), used_settings(parse_model_config(written, "config.json"))) << type;
  }
}

TEST(ModelConfig, EveryFamilysKeysAreRead) {
  struct Keys {
    const char *type, *hidden, *attention, *classifier, *act, *eps, *answers = "qa_dropout",
                                                                    *mlp = "mlp_dropout";
  };
  const Keys all[] = {
      {"bert", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "hidden_act",
       "layer_norm_eps"},
      {"roberta", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "hidden_act",
       "layer_norm_eps"},
      {"xlm-roberta", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
       "hidden_act", "layer_norm_eps"},
      {"camembert", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "hidden_act",
       "layer_norm_eps"},
      {"electra", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "hidden_act",
       "layer_norm_eps"},
      {"distilbert", "dropout", "attention_dropout", "seq_classif_dropout", "activation", "layer_norm_eps"},
      {"modernbert", "embedding_dropout", "attention_dropout", "classifier_dropout", "hidden_activation",
       "norm_eps", "classifier_dropout"}};
  for (const Keys& keys : all) {
    const bool modern = keys.type == std::string("modernbert"),
               distil = keys.type == std::string("distilbert");
    const std::string act = modern ? "gelu_python" : "relu";  // the only other one that it takes
    Json json = {{keys.hidden, 0.11}, {keys.attention, 0.12},      {keys.mlp, 0.14}, {keys.answers, 0.15},
                 {keys.act, act},     {"initializer_range", 0.25}, {keys.eps, 0.5}};
    json[keys.classifier] = 0.13;
    const ModelConfig c = tiny(keys.type, json);
    EXPECT_EQ(c.hidden_dropout_prob, 0.11) << keys.type;
    EXPECT_EQ(c.attention_probs_dropout_prob, 0.12) << keys.type;
    EXPECT_EQ(c.classifier_dropout, 0.13) << keys.type;
    EXPECT_EQ(c.qa_dropout, modern ? 0.13 : distil ? 0.15 : 0) << keys.type;
    EXPECT_EQ(c.mlp_dropout, modern ? 0.14 : 0) << keys.type;
    EXPECT_EQ(c.hidden_act, act) << keys.type;
    EXPECT_EQ(c.initializer_range, 0.25) << keys.type;
    EXPECT_EQ(c.layer_norm_eps, distil ? 1e-12 : 0.5) << keys.type;
    json.erase(keys.classifier);
    // Families whose head has a key of its own have a default of its own; the others take hidden's.
    const double otherwise = modern ? 0 : distil ? 0.2 : 0.11;
    EXPECT_EQ(tiny(keys.type, json).classifier_dropout, otherwise) << keys.type;
  }
}

/// As a text ten comes before two, and the keys of an object are sorted as texts.
TEST(ModelConfig, MoreThanTenLabelsKeepTheirIds) {
  Json names = Json::object();
  std::vector<std::string> wanted;
  for (int i = 0; i < 12; ++i)
    wanted.push_back(fmt::format("class {}", 11 - i)), names[std::to_string(i)] = wanted.back();
  const ModelConfig config = tiny("bert", {{"id2label", names}});
  EXPECT_EQ(config_labels(config), wanted);
  const Json written = config_to_write(config, "X", wanted, "");
  EXPECT_EQ(written["id2label"], names);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(written["label2id"][wanted[static_cast<size_t>(i)]], i);
}

/// transformers gives a head for questions as many outputs as config.json has labels.
TEST(ModelConfig, ForQuestionsOnlyTwoLabelsOfTheSourceStay) {
  const auto written = [](const Json& more) { return config_to_write(tiny("bert", more), "X", {}, ""); };
  const Json three = {{"id2label", {{"0", "a"}, {"1", "b"}, {"2", "c"}}},
                      {"label2id", {{"a", 0}, {"b", 1}, {"c", 2}}}};
  for (const Json& more : {three, Json{{"num_labels", 3}}, Json{{"id2label", nullptr}, {"num_labels", 1}}})
    for (const char* key : {"id2label", "label2id", "num_labels"})
      EXPECT_FALSE(written(more).contains(key)) << key << " " << more;
  const Json two = {{"id2label", {{"0", "a"}, {"1", "b"}}}, {"label2id", {{"a", 0}, {"b", 1}}}};
  for (const auto& [key, value] : two.items()) EXPECT_EQ(written(two)[key], value);
}

TEST(ModelConfig, LabelsAreNamedByIdOrCounted) {
  const auto labels = [](const Json& more) { return config_labels(tiny("bert", more)); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(labels(Json::object()), Names({"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(labels({{"id2label", nullptr}, {"num_labels", 1}}), Names({"LABEL_0"}));
  EXPECT_EQ(labels({{"num_labels", 1'000'000}}).size(), 1'000'000u);
  // As in transformers, the names count, not the number next to them.
  EXPECT_EQ(labels({{"id2label", {{"1", "b"}, {"0", "a"}}}, {"num_labels", 0}}), Names({"a", "b"}));
  // run_glue writes classes of its own files as it read them.
  EXPECT_EQ(labels({{"id2label", {{"0", 10}, {"1", -2}}}}), Names({"10", "-2"}));
  EXPECT_EQ(labels({{"id2label", {{"0", false}, {"1", 1.5}}}}), Names({"False", "1.5"}));
}

TEST(ModelConfig, LabelsThatNoHeadHasAreRefused) {
  const auto says = [](const Json& more, const char* words) {
    const ModelConfig config = tiny("bert", more);  // a model without a classifier does not care
    expect_words(error_of(ErrorCode::kInvalidData, [&] { config_labels(config); }), {"config.json", words});
  };
  for (const int64_t count : {int64_t{-1}, int64_t{0}, int64_t{1'000'001}, INT64_MAX})
    says({{"num_labels", count}}, fmt::format("\"num_labels\" is {}, expected 1 to 1000000;", count).c_str());
  says({{"id2label", Json::object()}}, "\"id2label\" is empty, expected an object");
  says({{"id2label", Json::array({"a", "b"})}}, "\"id2label\" is of type array, expected an object");
  says({{"id2label", "a"}}, "\"id2label\" is of type string, expected an object");
  says({{"id2label", {{"0", "a"}, {"2", "c"}}}}, "\"1\"");
  says({{"id2label", {{"0", "a"}, {"1", nullptr}}}}, "\"1\"");
  says({{"id2label", {{"0", Json::array({"a"})}}}}, "\"0\"");
}

/// An untied decoder has weights that a tied head would drop; other heads have none.
TEST(ModelConfig, AMaskedLmHeadThatIsNotTiedIsRefused) {
  for (const char* type : {"bert", "modernbert", "roberta", "xlm-roberta", "distilbert"}) {
    const ModelConfig untied = tiny(type, {{"tie_word_embeddings", false}});
    expect_words(error_of(ErrorCode::kUnsupported, [&] { make_model(untied, masked_lm(2)); }),
                 {"config.json: \"tie_word_embeddings\" is false, expected true"});
    EXPECT_NE(make_model(untied, single_label(2)), nullptr);
    EXPECT_NE(make_model(untied, question_answering(2)), nullptr);
    for (const Json& tied : {Json(nullptr), Json(true)})
      EXPECT_NE(make_model(tiny(type, {{"tie_word_embeddings", tied}}), masked_lm(2)), nullptr);
    EXPECT_NE(make_model(tiny(type), masked_lm(2)), nullptr);
  }
  expect_words(error_of(ErrorCode::kUnsupported,
                        [] {
                          make_model(tiny("electra", {{"tie_word_embeddings", false}}), masked_lm(2));
                        }),
               {"no masked-LM head for \"electra\""});
}

}  // namespace
}  // namespace lathe
