#include "lathe/models/model_config.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"
#include "lathe/models/encoder.h"

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
      {"bert", "num_hidden_layers", 10'000},       {"distilbert", "n_layers", 10'000},
      {"modernbert", "num_hidden_layers", 10'000}, {"bert", "hidden_size", 1'000'000},
      {"electra", "embedding_size", 1'000'000},    {"bert", "intermediate_size", 1'000'000},
      {"bert", "num_attention_heads", 1'000'000},  {"bert", "vocab_size", 100'000'000},
      {"bert", "type_vocab_size", 100'000'000},    {"roberta", "max_position_embeddings", 100'000'000}};
  for (const auto& [type, key, most] : sizes)
    for (const int64_t value : {int64_t{0}, most + 1, INT64_MAX})
      expect_words(error_of(ErrorCode::kInvalidData,
                            [&] {
                              tiny(type, {{key, value}});
                            }),
                   {"config.json", fmt::format("\"{}\" is {}, wants 1 to {};", key, value, most)});
  EXPECT_EQ(tiny("bert", {{"num_hidden_layers", 10'000}, {"vocab_size", 100'000'000}}).num_hidden_layers,
            10'000);
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
      config.json.erase("pad_token_id");  // a configuration that a program made
      EXPECT_EQ(parse_model_config(written(), "config.json").pad_token_id, config.pad_token_id);
    }
  expect_words(error_of(ErrorCode::kInvalidData,
                        [] {
                          tiny("roberta", {{"pad_token_id", nullptr}});
                        }),
               {"config.json: \"pad_token_id\" is null, wants 0 or more"});
}

TEST(ModelConfig, LabelsAreNamedByIdOrCounted) {
  const auto labels = [](const Json& more) { return config_labels(tiny("bert", more)); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(labels(Json::object()), Names({"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(labels({{"id2label", nullptr}, {"num_labels", 1}}), Names({"LABEL_0"}));
  EXPECT_EQ(labels({{"num_labels", 1'000'000}}).size(), 1'000'000u);
  // As in transformers, the names count, not the number beside them.
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
    says({{"num_labels", count}}, fmt::format("\"num_labels\" is {}, wants 1 to 1000000;", count).c_str());
  says({{"id2label", Json::object()}}, "\"id2label\" is empty, wants an object");
  says({{"id2label", Json::array({"a", "b"})}}, "\"id2label\" is of type array, wants an object");
  says({{"id2label", "a"}}, "\"id2label\" is of type string, wants an object");
  says({{"id2label", {{"0", "a"}, {"2", "c"}}}}, "\"1\"");
  says({{"id2label", {{"0", "a"}, {"1", nullptr}}}}, "\"1\"");
  says({{"id2label", {{"0", Json::array({"a"})}}}}, "\"0\"");
}

/// An untied decoder has weights that a tied head would drop; other heads have none.
TEST(ModelConfig, AMaskedLmHeadThatIsNotTiedIsRefused) {
  for (const char* type : {"bert", "modernbert"}) {
    const ModelConfig untied = tiny(type, {{"tie_word_embeddings", false}});
    expect_words(error_of(ErrorCode::kUnsupported, [&] { make_model(untied, Problem::kMaskedLm); }),
                 {"config.json: \"tie_word_embeddings\" is false, wants true"});
    EXPECT_NE(make_model(untied, Problem::kSingleLabel), nullptr);
    EXPECT_NE(make_model(untied, Problem::kQuestionAnswering), nullptr);
    for (const Json& tied : {Json(nullptr), Json(true)})
      EXPECT_NE(make_model(tiny(type, {{"tie_word_embeddings", tied}}), Problem::kMaskedLm), nullptr);
    EXPECT_NE(make_model(tiny(type), Problem::kMaskedLm), nullptr);
  }
  expect_words(
      error_of(ErrorCode::kUnsupported,
               [] {
                 make_model(tiny("distilbert", {{"tie_word_embeddings", false}}), Problem::kMaskedLm);
               }),
      {"no masked-LM head for \"distilbert\""});
}

}  // namespace
}  // namespace lathe
