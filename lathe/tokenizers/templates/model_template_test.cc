#include "lathe/tokenizers/templates/model_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lathe/core/error_testing.h"
#include "lathe/core/test_folder.h"

namespace lathe::templates {
namespace {

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<ModelTemplate> read(const TestFolder& folder) {
  return read_model_templates(real_file_system(), folder.path());
}

TEST(ModelTemplate, FileBesideGoesBeforeConfig) {
  const TestFolder folder;
  put(folder / "tokenizer_config.json", R"({"chat_template": "config"})");
  ASSERT_EQ(read(folder).size(), 1u);
  EXPECT_EQ(read(folder)[0].source, "config");
  EXPECT_EQ(read(folder)[0].place, folder / "tokenizer_config.json: chat_template");
  put(folder / "chat_template.jinja", "file é");
  const std::vector<ModelTemplate> out = read(folder);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].source, "file é");
  EXPECT_EQ(out[0].place, folder / "chat_template.jinja");
  EXPECT_EQ(choose_model_template(out, true, "m").source, "file é");
}

TEST(ModelTemplate, OfSeveralToolsTakeToolUse) {
  const TestFolder folder;
  put(folder / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "old"}, {"name": "tool_use", "template": "t"},
                            {"name": "default", "template": "d"}]})");
  const std::vector<ModelTemplate> out = read(folder);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(choose_model_template(out, false, "m").source, "d");
  EXPECT_EQ(choose_model_template(out, true, "m").source, "t");
  EXPECT_EQ(choose_model_template(out, true, "m").place,
            folder / "tokenizer_config.json: chat_template \"tool_use\"");
}

TEST(ModelTemplate, AdditionalFilesHaveTheNamesOfTheirFiles) {
  const TestFolder folder;
  put(folder / "chat_template.jinja", "d");
  std::filesystem::create_directory(folder / "additional_chat_templates");
  put(folder / "additional_chat_templates/tool_use.jinja", "t");
  put(folder / "additional_chat_templates/README.md", "x");
  const std::vector<ModelTemplate> out = read(folder);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(choose_model_template(out, true, "m").source, "t");
  EXPECT_EQ(choose_model_template(out, false, "m").source, "d");
}

TEST(ModelTemplate, NoneIsAnErrorOnlyWhereOneIsNeeded) {
  const TestFolder folder;
  EXPECT_TRUE(read(folder).empty());
  put(folder / "tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_TRUE(read(folder).empty());
  const auto choose = [&] { choose_model_template({}, false, "the_model"); };
  EXPECT_EQ(message_of(ErrorCode::kNotFound, choose).rfind("the_model: found no chat template", 0), 0u);
  const std::vector<ModelTemplate> rag = {{"rag", "x", "p"}};
  EXPECT_NE(
      message_of(ErrorCode::kNotFound, [&] { choose_model_template(rag, false, "m"); }).find("templates rag"),
      std::string::npos);
}

TEST(ModelTemplate, MalformedFilesAreErrorsByFile) {
  const auto wrong = [](const char* file, const std::string& text, const std::string& part) {
    const TestFolder folder;
    put(folder / file, text);
    const std::string what = message_of(ErrorCode::kInvalidData, [&] { read(folder); });
    EXPECT_TRUE(what.starts_with(folder / file)) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what;
  };
  wrong("tokenizer_config.json", R"({"chat_template": 5})", "found a number, expected a text or a list");
  wrong("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})", "name and template");
  wrong("tokenizer_config.json", R"({"chat_template": ["x"]})", "name and template");
  wrong("tokenizer_config.json", "[]", "expected an object");
  wrong("tokenizer_config.json", "{", ":1:");
  wrong("chat_template.jinja", "\xff", "UTF-8");
  wrong("chat_template.jinja", "version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer");
}

}  // namespace
}  // namespace lathe::templates
