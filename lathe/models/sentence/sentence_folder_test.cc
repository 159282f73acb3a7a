// Reads folders that sentence-transformers saved; tools/make_sentence_folders.py writes them.
#include "lathe/models/sentence/sentence_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error_testing.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

using Modes = std::vector<PoolingMode>;

FileSystem& real_disk() { return real_file_system(); }

std::string stored_folder(const std::string& name) {
  return source_path("tests/golden/sentence_folders/") + name;
}

void write_text(const TestFolder& folder, const std::string& name, const std::string& text) {
  real_disk().create_directories(parent_folder(folder / name)).check();
  real_disk().write_atomic(folder / name, text).check();
}

void expect_refusal(const TestFolder& folder, ErrorCode code, const std::vector<std::string>& parts) {
  const std::string message = message_of(code, [&] { read_sentence_folder(real_disk(), folder.path()); });
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

constexpr const char* kTwoModules =
    R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";

void write_small(const TestFolder& folder) {
  write_text(folder, "modules.json", kTwoModules);
  write_text(folder, "1_Pooling/config.json",
             R"({"word_embedding_dimension": 4, "pooling_mode_cls_token": true})");
}

TEST(SentenceFolder, ReadsWhatThePackageSaved) {
  const SentenceFolder dense = read_sentence_folder(real_disk(), stored_folder("dense"));
  EXPECT_EQ(dense.pooling.modes, (Modes{PoolingMode::kMean, PoolingMode::kMax}));
  EXPECT_EQ(dense.pooling.output_width(), 64);
  EXPECT_EQ(dense.similarity, "dot");
  EXPECT_EQ(dense.prompts, (std::map<std::string, std::string>{{"document", ""}, {"query", "q: "}}));
  EXPECT_EQ(dense.default_prompt_name, "query");
  EXPECT_FALSE(dense.max_seq_length);
  ASSERT_EQ(dense.steps.size(), 2u);
  ASSERT_TRUE(dense.steps[0].dense);
  EXPECT_EQ(dense.steps[0].dense->activation, "Tanh");
  EXPECT_EQ(dense.steps[0].dense->weight.size(), 512u);
  EXPECT_EQ(dense.steps[0].dense->bias.size(), 8u);
  EXPECT_FALSE(dense.steps[1].dense);

  const SentenceFolder last = read_sentence_folder(real_disk(), stored_folder("last_token"));
  EXPECT_EQ(last.pooling.modes, Modes{PoolingMode::kLastToken});
  EXPECT_FALSE(last.pooling.include_prompt);
  EXPECT_TRUE(last.steps.empty());
}

TEST(SentenceFolder, WritesTheNewFormAsThePackage) {
  const TestFolder folder;
  const std::string from = stored_folder("dense");
  write_sentence_folder(real_disk(), folder.path(), read_sentence_folder(real_disk(), from),
                        SentenceFormat::kNew);
  for (const char* file : {"modules.json", "1_Pooling/config.json", "2_Dense/config.json",
                           "2_Dense/model.safetensors", "3_Normalize/config.json"})
    EXPECT_EQ(real_disk().read(folder / file).value(), real_disk().read(join_path(from, file)).value())
        << file;
}

TEST(SentenceFolder, ReadsWhatItWroteInBothForms) {
  SentenceFolder model;
  model.max_seq_length = 128;
  model.pooling = {.width = 2, .modes = {PoolingMode::kCls, PoolingMode::kMean}, .include_prompt = false};
  model.steps.push_back(
      {DenseConfig{.in = 4, .out = 1, .activation = "Identity", .weight = {1, 2, 3, 4}, .bias = {}}});
  model.prompts = {{"query", "ask: "}};
  model.truncate_dim = 1;
  for (const SentenceFormat format : {SentenceFormat::kOld, SentenceFormat::kNew}) {
    for (const Modes& modes : {model.pooling.modes, Modes{PoolingMode::kMean, PoolingMode::kCls}}) {
      const TestFolder folder;
      model.pooling.modes = modes;
      write_sentence_folder(real_disk(), folder.path(), model, format);
      EXPECT_TRUE(is_sentence_folder(real_disk(), folder.path()));
      const SentenceFolder back = read_sentence_folder(real_disk(), folder.path());
      EXPECT_EQ(back.max_seq_length, 128);
      EXPECT_EQ(back.pooling.modes, modes);
      EXPECT_FALSE(back.pooling.include_prompt);
      ASSERT_EQ(back.steps.size(), 1u);
      EXPECT_EQ(back.steps[0].dense->activation, "Identity");
      EXPECT_EQ(back.steps[0].dense->weight, model.steps[0].dense->weight);
      EXPECT_TRUE(back.steps[0].dense->bias.empty());
      EXPECT_EQ(back.prompts, model.prompts);
      EXPECT_FALSE(back.default_prompt_name);
      EXPECT_EQ(back.truncate_dim, 1);
    }
  }
}

TEST(SentenceFolder, OldKeysAndOldFileNames) {
  const TestFolder folder;
  write_small(folder);
  write_text(folder, "sentence_roberta_config.json", R"({"max_seq_length": 7, "do_lower_case": true})");
  SentenceFolder model = read_sentence_folder(real_disk(), folder.path());
  EXPECT_EQ(model.pooling.modes, Modes{PoolingMode::kCls});
  EXPECT_EQ(model.max_seq_length, 7);
  EXPECT_TRUE(model.do_lower_case);
  write_text(folder, "1_Pooling/config.json", R"({"word_embedding_dimension": 4})");
  EXPECT_EQ(read_sentence_folder(real_disk(), folder.path()).pooling.modes, Modes{PoolingMode::kMean});
}

TEST(SentenceFolder, RefusesByNameWhatItLacks) {
  const TestFolder folder;
  write_small(folder);
  const auto modules = [&](const std::string& more) {
    std::string text = kTwoModules;
    text.insert(text.size() - 1, "," + more);
    write_text(folder, "modules.json", text);
  };
  modules(R"({"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"})");
  expect_refusal(
      folder, ErrorCode::kUnsupported,
      {"modules.json", "module 2", "sentence_transformers.models.LSTM", "Transformer, Pooling, Dense"});
  modules(R"({"path": "2", "type": "custom_code.Dense"})");
  expect_refusal(folder, ErrorCode::kUnsupported, {"custom_code.Dense"});
  modules(R"({"path": "../other", "type": "sentence_transformers.models.Dense"})");
  expect_refusal(folder, ErrorCode::kInvalidData, {"\"../other\"", "inside the model's"});
  modules(R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})");
  expect_refusal(folder, ErrorCode::kUnsupported, {"module 2 is a second Pooling"});
  modules(R"({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})");
  expect_refusal(folder, ErrorCode::kNotFound, {"2_Dense/config.json"});
  const auto dense = [&](const std::string& more) {
    write_text(folder, "2_Dense/config.json", R"({"in_features": 3, "out_features": 2)" + more + "}");
  };
  dense(R"(, "activation_function": "torch.nn.modules.activation.SELU")");
  expect_refusal(folder, ErrorCode::kUnsupported, {"SELU", "Tanh"});
  dense(R"(, "use_residual": true)");
  expect_refusal(folder, ErrorCode::kUnsupported, {"use_residual"});
}

TEST(SentenceFolder, RefusesMalformedFiles) {
  for (const auto& [file, text] : std::vector<std::pair<std::string, std::string>>{
           {"modules.json", ""},
           {"modules.json", "{}"},
           {"modules.json", "[]"},
           {"modules.json", "[1]"},
           {"modules.json", R"([{"path": "", "type": 3}])"},
           {"modules.json", R"([{"type": "sentence_transformers.models.Transformer"}])"},
           {"1_Pooling/config.json", "[]"},
           {"1_Pooling/config.json", R"({"word_embedding_dimension": 0})"},
           {"1_Pooling/config.json", R"({"word_embedding_dimension": 4, "pooling_mode": []})"},
           {"1_Pooling/config.json", R"({"word_embedding_dimension": 4, "pooling_mode": {"mean": 1}})"},
           {"1_Pooling/config.json", R"({"word_embedding_dimension": 4, "pooling_mode_cls_token": "yes"})"},
           {"sentence_bert_config.json", R"({"max_seq_length": -1})"},
           {"sentence_bert_config.json", R"({"max_seq_length": "long"})"},
           {"config_sentence_transformers.json", "[]"},
           {"config_sentence_transformers.json", R"({"prompts": ["a"]})"},
           {"config_sentence_transformers.json", R"({"prompts": {"query": 1}})"},
           {"config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": "query"})"}}) {
    const TestFolder folder;
    write_small(folder);
    write_text(folder, file, text);
    expect_refusal(folder, ErrorCode::kInvalidData, {file});
  }
  const TestFolder folder;
  write_small(folder);
  write_text(folder, "1_Pooling/config.json", R"({"word_embedding_dimension": 4, "pooling_mode": "median"})");
  expect_refusal(folder, ErrorCode::kUnsupported, {"\"median\"", "weightedmean"});
  write_text(
      folder, "1_Pooling/config.json",
      R"({"word_embedding_dimension": 4, "pooling_mode_cls_token": true, "pooling_mode_median": true})");
  expect_refusal(folder, ErrorCode::kUnsupported, {"\"pooling_mode_median\"", "weightedmean"});
}

TEST(SentenceFolder, CrossEncoders) {
  EXPECT_EQ(read_cross_encoder_folder(real_disk(), stored_folder("one_score"), 1).activation, "Sigmoid");
  EXPECT_EQ(read_cross_encoder_folder(real_disk(), stored_folder("classes"), 3).activation, "Identity");
  const TestFolder folder;
  const auto activation = [&](const std::string& config, int64_t labels) {
    write_text(folder, "config.json", config);
    return read_cross_encoder_folder(real_disk(), folder.path(), labels).activation;
  };
  EXPECT_EQ(activation("{}", 1), "Sigmoid");
  EXPECT_EQ(activation("{}", 2), "Identity");
  EXPECT_EQ(
      activation(R"({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}})", 1),
      "Identity");
  EXPECT_EQ(activation(R"({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})", 1),
            "Identity");
  EXPECT_NE(
      message_of(ErrorCode::kUnsupported,
                 [&] { activation(R"({"sentence_transformers": {"activation_fn": "mine.Softplus"}})", 1); })
          .find("mine.Softplus"),
      std::string::npos);
}

TEST(SentenceFolder, KnowsACrossEncoderFromOtherFolders) {
  EXPECT_TRUE(is_cross_encoder_folder(real_disk(), stored_folder("one_score")));
  EXPECT_FALSE(is_cross_encoder_folder(real_disk(), stored_folder("dense")));
  const TestFolder folder;
  EXPECT_FALSE(is_cross_encoder_folder(real_disk(), folder.path()));
  const auto is_one = [&](const std::string& config) {
    write_text(folder, "config.json", config);
    return is_cross_encoder_folder(real_disk(), folder.path());
  };
  EXPECT_FALSE(is_one("{}"));
  EXPECT_TRUE(is_one(R"({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})"));
  EXPECT_TRUE(is_one(R"({"sentence_transformers": {"version": "4.1.0"}})"));
}

TEST(SentenceFolder, WritesCrossEncodersAsThePackage) {
  const TestFolder folder;
  const std::string from = stored_folder("one_score");
  CrossEncoderFolder model = read_cross_encoder_folder(real_disk(), from, 1);
  model.prompts = {{"ask", "q: "}};
  model.default_prompt_name = "ask";
  write_cross_encoder_folder(real_disk(), folder.path(), model);
  for (const char* file : {"modules.json", "sentence_bert_config.json"})
    EXPECT_EQ(real_disk().read(folder / file).value(), real_disk().read(join_path(from, file)).value())
        << file;
  write_text(folder, "config.json", "{}");
  const CrossEncoderFolder back = read_cross_encoder_folder(real_disk(), folder.path(), 3);
  EXPECT_EQ(back.activation, "Sigmoid");
  EXPECT_EQ(back.prompts, model.prompts);
  EXPECT_EQ(back.default_prompt_name, "ask");
}

}  // namespace
}  // namespace lathe
